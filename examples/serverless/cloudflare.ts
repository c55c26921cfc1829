// Cloudflare Workers: `fetch` for wake-up requests, `scheduled` for cron triggers.

import { cloudflareHandler } from 'reprise/serverless'
import { options } from './orders.ts'

export default cloudflareHandler((env: { readonly SECRET: string }) => ({
  ...options,
  budget: '25s',
  secret: env.SECRET,
}))
