// The templates of `reprise init`. Each runs as it is, without a network, and shows where to adapt it. A test runs them all.

export interface TemplateFile {
  readonly path: string
  readonly content: string
}

export interface Template {
  readonly name: string
  readonly summary: string
  readonly defaultName: string
  /** The command that runs the first file. Default: `reprise run`. */
  readonly runsWith?: (language: 'ts' | 'js') => string
  readonly files: (name: string, language: 'ts' | 'js') => readonly TemplateFile[]
}

/** Node itself strips types since 22.18. */
export function canRunTypeScript(): boolean {
  return Boolean((process.features as { typescript?: unknown }).typescript)
}

const extension = (language: 'ts' | 'js') => (language === 'ts' ? 'ts' : 'mjs')

/** Programs that open the store themselves. */
const runsWithNode = (language: 'ts' | 'js') => (language === 'ts' && !canRunTypeScript() ? 'npx tsx' : 'node')

export const templates: readonly Template[] = [
  {
    name: 'job',
    summary: 'a list of items, each done once',
    defaultName: 'papers',
    files: (name, language) => [
      {
        path: `${name}.${extension(language)}`,
        content: `// A resumable job: kill it whenever you like and run it again. Finished items are never repeated.
import { setTimeout as sleep } from 'node:timers/promises'
import { job } from 'reprise/job'

export const work = job('${name}', {
  source: Array.from({ length: 500 }, (_, i) => ({ id: \`item-\${i + 1}\` })), // anything that can be iterated
  key: (item) => item.id, //                                 what identifies an item
  concurrency: 8,
  retry: { attempts: 4 },
  each: async (item, ctx) => {
    await sleep(20, undefined, { signal: ctx.signal }) //     your work; ctx.idempotencyKey goes to the outside system
  },
})
`,
      },
    ],
  },
  {
    name: 'pages',
    summary: 'a paged API, read from the page where it stopped',
    defaultName: 'ingest',
    files: (name, language) => [
      {
        path: `${name}.${extension(language)}`,
        content: `// Resumable ingestion of a paged API: after a crash it resumes at its last page, and skips finished records.
import { setTimeout as sleep } from 'node:timers/promises'
import { job, pages } from 'reprise/job'

// Stands for your API: 20 pages of 25 records.
async function list(cursor${language === 'ts' ? '?: number' : ''}) {
  await sleep(10)
  const page = cursor ?? 0
  const items = Array.from({ length: 25 }, (_, i) => ({ id: page * 25 + i + 1 }))
  return { items, next: page < 19 ? page + 1 : null, total: 500 }
}

export const work = job('${name}', {
  source: pages(${language === 'ts' ? '(cursor?: number)' : '(cursor)'} => list(cursor)),
  key: (record) => record.id,
  concurrency: 4,
  rate: { max: 200, per: '1s' }, //                          shared by all processes on this job
  breaker: { failures: 10, pause: '30s' }, //                pause when the service is down, then probe
  each: async (record, ctx) => {
    await sleep(10, undefined, { signal: ctx.signal })
    return record.id
  },
})
`,
      },
    ],
  },
  {
    name: 'migrate',
    summary: 'numbered steps, resumed at the one that failed',
    defaultName: 'schema',
    files: (name, language) => [
      {
        path: `${name}.${extension(language)}`,
        content: `// Migrations: each step is recorded with its checksum; a run resumes with the failed step.
import { migrations } from 'reprise/migrate'

export const work = migrations('${name}', {
  steps: [
    { id: '001-notes', sql: 'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)' },
    { id: '002-first-note', sql: "INSERT INTO notes (text) VALUES ('hello')" },
    {
      id: '003-in-code',
      run: async (step) => {
        await step.save({ at: 'half way' }) //               a long step finds this again as step.saved
        step.commit((sql) => sql.run("INSERT INTO notes (text) VALUES ('from code')"))
      },
    },
  ],
})
`,
      },
    ],
  },
  {
    name: 'workflow',
    summary: 'steps, a timer and a decision, resumed at the interrupted step',
    defaultName: 'checkout',
    files: (name, language) => [
      {
        path: `${name}.${extension(language)}`,
        content: `// A durable workflow: kill it whenever you like and run it again with the same --id. A step that is done is never done
// again; if a later one fails, the earlier ones are undone in reverse.
import { setTimeout as sleep } from 'node:timers/promises'
import { workflow } from 'reprise/workflow'

${language === 'ts' ? 'interface Order {\n  readonly cents: number\n}\n\n' : ''}// Stands for your bank.
const bank = {
  charge: async (${language === 'ts' ? 'cents: number, key: string' : 'cents, key'}) => {
    await sleep(500)
    return { payment: \`payment of \${key}\`, cents }
  },
  refund: async (${language === 'ts' ? 'payment: string' : 'payment'}) => console.error('refunded', payment),
}

export const work = workflow('${name}', async (ctx, order${language === 'ts' ? ': Order' : ''} = { cents: 1999 }) => {
  const charged = await ctx.step('charge', ({ key }) => bank.charge(order.cents, key), {
    retry: { attempts: 3 },
    compensate: (done) => bank.refund(done.payment), //      called if a later step fails
  })
  await ctx.sleep('2s') //                                   survives a restart; waiting a week costs nothing
  const shipped = await ctx.step('ship', async () => {
    await sleep(500)
    return 'on its way'
  })
  return { ...charged, shipped }
})
`,
      },
    ],
  },
  {
    name: 'pipeline',
    summary: 'a stream of records into windows and files, each result exactly once',
    defaultName: 'readings',
    files: (name, language) => [
      {
        path: `${name}.${extension(language)}`,
        content: `// A pipeline: kill it whenever you like and run it again. No result is missing, and none appears twice.
import { setTimeout as sleep } from 'node:timers/promises'
import { count, fileSink, iterableSource, pipeline, tumbling } from 'reprise/pipeline'

// Stands for your stream: 300 readings of three sensors, with their times.
async function* readings() {
  for (let n = 0; n < 300; n++) {
    await sleep(10)
    yield { sensor: \`sensor-\${n % 3}\`, at: n * 100 }
  }
}

export const work = pipeline('${name}', (p) => {
  p.from('readings', iterableSource(readings), { time: (reading) => reading.at })
    .keyBy((reading) => reading.sensor)
    .window('ten-seconds', tumbling('10s'))
    .aggregate(count())
    .to('counts', fileSink({ folder: '${name}-counts' })) //   a visible file is complete; rowSink writes to your database
})
`,
      },
    ],
  },
  {
    name: 'agent',
    summary: 'a model that calls tools, in a session that resumes',
    defaultName: 'support',
    runsWith: runsWithNode,
    files: (name, language) => [
      {
        path: `chat-${name}.${extension(language)}`,
        content: `// Kill it whenever you like and run it again: the turn continues, and its tools are called once.
import { open } from 'reprise'
import { work } from './${name}.${extension(language)}'

const rp = await open()
const session = await rp.open(work, 'ticket-7')
const { content } = await session.turn('My parcel never came.', { key: 'request-1' }) // the same key is the same turn
console.log(content)
await rp.close()
`,
      },
      {
        path: `${name}.${extension(language)}`,
        content: `// An agent: each call of the model and of a tool is recorded, with its intent before it.
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { agent, tool } from 'reprise/agent'

const usage = { inputTokens: 100, outputTokens: 10, cost: 0.001 }

export const work = agent('${name}', {
  initial: () => ({ order: 'order-42' }),
  settings: { prompt: 'Refund an order once at most.' },
  // Stands for your model: anthropicModel and openAIModel of reprise/agent call real ones.
  model: async ({ messages }) => {
    await sleep(500)
    const isRefunded = messages.some((message) => message.role === 'tool')
    if (isRefunded) return { content: 'Your money is on its way.', usage }
    return { content: '', requests: [{ tool: 'refund', args: { cents: 1999 } }], usage }
  },
  tools: {
    refund: tool({
      kind: 'compensatable', //                                a rollback of the session undoes it
      inDoubt: 'retry', //                                     after a crash, call again with the same key
      run: async (args${language === 'ts' ? ': { cents: number }' : ''}, { key }) => {
        appendFileSync('bank.txt', \`refund of \${args.cents} with \${key}\\n\`)
        return { id: key }
      },
      compensate: (_args, refund) => appendFileSync('bank.txt', \`undone \${refund.id}\\n\`),
    }),
  },
})
`,
      },
    ],
  },
  {
    name: 'timeline',
    summary: 'the kernel itself: history, state, coordinate',
    defaultName: 'counter',
    runsWith: runsWithNode,
    files: (name, language) => [
      {
        path: `count-${name}.${extension(language)}`,
        content: `// Run it several times: it continues counting, however it ended.
import { open } from 'reprise'
import { work } from './${name}.${extension(language)}'

const rp = await open()
const visits = await rp.open(work, 'visits')
await visits.append({ type: 'added', by: 1 })
console.log(visits.state.total, visits.coordinate)
await rp.close()
`,
      },
      {
        path: `${name}.${extension(language)}`,
        content: `// A raw timeline: history and how it folds into state. Tools find the definition here:
//   reprise at ${name}/visits --module ${name}.${extension(language)}
import { timeline } from 'reprise'

export const work = timeline('${name}', {
  initial: () => ({ total: 0 }),
  apply: (state, entry${language === 'ts' ? ": { type: 'added'; by: number }" : ''}) => ({ total: state.total + entry.by }),
  checkpoint: { every: 1000 },
})
`,
      },
    ],
  },
]
