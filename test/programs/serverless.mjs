// One invocation of a handler of examples/serverless, in a process of its own. Prints the report.
// DATABASE_URL=… LEDGER=… node serverless.mjs lambda|route|tick|cloudflare|scheduled MS

import { signWake } from '../../lib/adapters/serverless/index.js'

const [platform, ms] = process.argv.slice(2)
const secret = 'a secret for tests only'
process.env.CRON_SECRET = secret

async function signed() {
  const body = JSON.stringify({ due: true })
  const headers = { 'reprise-signature': await signWake(secret, body) }
  return new Request('https://example.com/api/work', { method: 'POST', headers, body })
}

async function invoke() {
  if (platform === 'lambda') {
    const { handler } = await import('../../examples/serverless/lambda.ts')
    const endsAt = Date.now() + Number(ms)
    return await handler({}, { getRemainingTimeInMillis: () => endsAt - Date.now() })
  }
  if (platform === 'route' || platform === 'tick') {
    const { GET, POST } = await import('../../examples/serverless/route.ts')
    const headers = { authorization: `Bearer ${secret}` }
    const tick = new Request('https://example.com/api/work', { headers })
    return await (platform === 'tick' ? GET(tick) : POST(await signed())).then((response) => response.json())
  }
  const { default: worker } = await import('../../examples/serverless/cloudflare.ts')
  if (platform === 'scheduled') return await worker.scheduled({}, { SECRET: secret })
  return await (await worker.fetch(await signed(), { SECRET: secret })).json()
}

process.stdout.write(JSON.stringify((await invoke()) ?? null), () => process.exit(0))
