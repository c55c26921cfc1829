// A warm process of a function: each line of its input is an invocation with that many milliseconds, and its report is one
// line of output. DATABASE_URL=… LEDGER=… node serverless-warm.mjs

import { createInterface } from 'node:readline'
import { handler } from '../../examples/serverless/lambda.ts'

for await (const line of createInterface({ input: process.stdin })) {
  const endsAt = Date.now() + Number(line)
  const report = await handler({}, { getRemainingTimeInMillis: () => endsAt - Date.now() }).catch(String)
  process.stdout.write(`${JSON.stringify(report)}\n`)
}
