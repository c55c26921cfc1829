// Examples of `reprise/ai-sdk`.

import assert from 'node:assert/strict'
import { tool } from 'ai'
import { record } from 'reprise/ai-sdk'
import { z } from 'zod'
import { example } from './example.ts'

export default [
  example(['record', 'Recorder.tools', 'Recorder.undo', 'Recorder.settle', 'Recorder.close'], async (rp) => {
    const refunds: string[] = []
    const refund = tool({
      inputSchema: z.object({ cents: z.number() }),
      execute: async ({ cents }) => {
        refunds.push(`refunded ${cents}`)
        return { cents }
      },
    })
    const recorder = await rp.open(record('chat'), 'conversation-7')
    // And for the model: wrapLanguageModel({ model, middleware: recorder.middleware })
    const tools = recorder.tools(
      { refund },
      {
        refund: {
          kind: 'compensatable',
          compensate: ({ cents }: { cents: number }) => void refunds.push(`took back ${cents}`),
        },
      },
    )
    await tools.refund.execute!({ cents: 500 }, { toolCallId: 'call-1', messages: [] })
    await recorder.settle()
    await recorder.undo()
    assert.deepEqual(refunds, ['refunded 500', 'took back 500'])
    await recorder.close()
  }),
]
