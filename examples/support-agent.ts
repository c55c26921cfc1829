// A support agent that gets into a loop of refunds: a guardrail rolls it back, the refunds are undone, and it continues with
// another prompt. Run it: npx tsx examples/support-agent.ts

import { open } from 'reprise'
import { agent, type ModelCall, noLoops, tool } from 'reprise/agent'

/** The bank: in production an HTTP API that takes an idempotency key. */
export const bank = {
  refunds: new Map<string, number>(),
  refund(cents: number, key: string) {
    this.refunds.set(key, cents)
    return { id: key, cents }
  },
  undo(id: string) {
    this.refunds.delete(id)
  },
}

/**
 * Stands for a model: with the prompt to be generous, it refunds again and again; with the prompt to be careful, it refunds
 * once.
 */
function model({ messages, settings }: ModelCall<{ order: string }>) {
  const refunds = messages.filter((message) => message.role === 'tool').length
  const isDone = refunds > 0 && settings.prompt === 'Refund an order once at most.'
  const usage = { inputTokens: 200, outputTokens: 20, cost: 0.001 }
  if (isDone) return { content: 'I refunded your order. Sorry for the trouble.', usage }
  return { content: '', requests: [{ tool: 'refund', args: { cents: 1999 } }], usage }
}

const support = agent('support', {
  initial: () => ({ order: 'order-42' }),
  settings: { prompt: 'Be generous.' },
  model,
  tools: {
    refund: tool({
      kind: 'compensatable',
      run: (args: { cents: number }, { key }) => bank.refund(args.cents, key),
      compensate: (_args, result) => bank.undo(result.id),
    }),
  },
  guardrails: [noLoops({ repeatsMax: 2, change: () => ({ prompt: 'Refund an order once at most.' }) })],
})

export async function main(url = 'memory:') {
  const rp = await open(url)
  try {
    const session = await rp.open(support, 'ticket-7')
    const result = await session.turn('My parcel never came.')
    return {
      answer: result.content,
      refunds: [...bank.refunds.values()],
      rollbacks: session.state.rollbacks['no-loops'],
      cost: session.usage.cost,
    }
  } finally {
    await rp.close()
  }
}

if (process.argv[1]?.endsWith('support-agent.ts')) console.log(await main())
