// Vercel and Next.js: the file `route.ts` of a folder of `app`. Vercel's scheduler calls GET; wake-up requests are POST.

import { routeHandler } from 'reprise/serverless'
import { options } from './orders.ts'

export const maxDuration = 60
const work = routeHandler({ ...options, budget: '50s', secret: process.env.CRON_SECRET! })

export { work as GET, work as POST }
