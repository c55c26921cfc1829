// Declarations that fragments in the docs assume, by page or by block. Types are loose: the test checks the use of Reprise.

const paper = 'interface Paper { readonly doi: string; readonly url: string }'
const order = 'interface Order { readonly id: string; readonly cents: number; readonly updatedAt: string }'
const bank =
  'declare const bank: { charge(cents: number, options: { idempotencyKey: string }): Promise<{ id: string }>; refund(id: string): Promise<void>; refunds: number }'
const checkout = "declare const checkout: import('reprise/workflow').WorkflowDefinition<Order, unknown>"
const account = `const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { withdrawn: (s, e: { amount: number; to?: string }) => s, deposited: (s, e: { amount: number }) => s },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited' as const, amount: c.amount }) },
})`

export const contexts: Readonly<Record<string, readonly string[]>> = {
  'README.md': [
    paper,
    order,
    bank,
    'declare const pubmed: { list(page: number): Promise<{ items: Paper[]; next: number | null }> }',
    'declare const store: { save(text: string): Promise<void> }',
    'declare function fetchFull(paper: Paper, signal: AbortSignal): Promise<string>',
    'declare const crm: { upsert(order: Order, options: { idempotencyKey: string }): Promise<void> }',
    'declare function backfill(saved: unknown, save: (value: unknown) => Promise<void>): Promise<void>',
    'interface Model { readonly weights: readonly number[] }',
    'declare const model: Model',
  ],
  'docs/guides/ingestion.md': [
    paper,
    'declare const api: { list(page: { cursor?: string | undefined }): Promise<{ records: Paper[]; nextCursor: string | null; count: number }> }',
    'declare const store: { save(key: string, text: string): Promise<void> }',
  ],
  'docs/guides/moving-a-script.md': [
    paper,
    'declare const list: Paper[]',
    'declare function work(paper: Paper): Promise<void>',
  ],
  'docs/guides/jobs.md': [
    account,
    'declare function mail(timeline: string, type: string, data: unknown): Promise<void>',
  ],
  'docs/guides/migrations.md': ['declare function copy(from: number, count: number): Promise<void>'],
  'docs/guides/workflows.md': [
    'declare const service: { compose(name: string): Promise<string> }',
    'declare const mail: { send(text: string, options: { idempotencyKey: string }): Promise<string> }',
    "declare function run(ctx: import('reprise/workflow').WorkflowContext, input: { model: string }): Promise<void>",
    "declare const report: import('reprise/workflow').WorkflowDefinition<undefined, void>",
  ],
  'docs/guides/sagas.md': [
    'declare const bank: { charge(cents: number, options: { idempotencyKey: string }): Promise<{ id: string }>; refund(id: string, options: { idempotencyKey: string }): Promise<void> }',
    'declare const cents: number',
    "declare const ctx: import('reprise/workflow').WorkflowContext",
  ],
  'docs/guides/keys.md': [
    'declare const bank: { charge(customer: string, cents: number, options: { idempotencyKey: string }): Promise<{ id: string }> }',
    'declare const order: { customer: string; cents: number }',
    "declare const ctx: import('reprise/workflow').WorkflowContext",
  ],
  'docs/guides/uploads.md': [
    "declare const transcode: import('reprise/workflow').WorkflowDefinition<{ id: string }, void>",
    "declare const videos: import('reprise/upload').UploadDefinition",
  ],
  'docs/guides/server.md': [order, 'interface Payment { readonly id: string }'],
  'docs/guides/versioning.md': [order, checkout, "declare const ctx: import('reprise/workflow').WorkflowContext"],
  'docs/guides/testing.md': [
    order,
    bank,
    checkout,
    'declare const order: Order',
    "declare const subscription: import('reprise/workflow').WorkflowDefinition<{ plan: string }, string>",
    'declare const input: { plan: string }',
    "declare const assert: typeof import('node:assert/strict')",
    "declare const nightly: import('reprise/job').JobDefinition<{ id: string }>",
    "declare const stock: import('reprise/table').TableDefinition<number>",
    "declare const clerk: import('reprise/agent').AgentDefinition<null>",
    "declare const revenue: import('reprise/pipeline').PipelineDefinition",
    "declare const job: typeof import('reprise/job').job",
  ],
  'docs/guides/events.md': [
    account,
    "declare const ledger: import('reprise/events').SqlProjectionDefinition",
    'declare const least: number',
  ],
  'docs/guides/configuration-push.md': [
    'interface Routes { readonly upstream: string }',
    "declare const routes: import('reprise/resources').ConfigDefinition<Routes>",
    "declare const push: import('reprise/resources').ConfigHandle<Routes>",
  ],
  'docs/guides/resources.md': [
    'interface Site { readonly replicas: number }',
    'interface SiteStatus { readonly ready: number }',
    "declare const sites: import('reprise/resources').ResourceDefinition<Site, SiteStatus>",
    "declare const pods: import('reprise/resources').ResourceDefinition<{ readonly node: string }>",
    "declare const handle: import('reprise/resources').ResourceHandle<Site, SiteStatus>",
    'declare const dns: { put(name: string, replicas: number): Promise<void>; remove(name: string): Promise<void> }',
    'declare const mail: { send(text: string, options: { idempotencyKey: string }): Promise<string> }',
  ],
  'docs/guides/saves.md': [
    'interface Model { readonly epoch: number }',
    'declare const model: Model',
    "declare const createReadStream: typeof import('node:fs').createReadStream",
  ],
  'docs/guides/reruns.md': [
    "declare const report: import('reprise/workflow').WorkflowDefinition<string, number>",
    'declare const fetchRows: (day: string) => Promise<string[]>',
    'declare const fetchRates: (day: string) => Promise<number>',
    "declare const cleaned: import('reprise/memo').MemoDefinition<[string[]], string[]>",
    'declare const load: (day: string, clean: string[], rates: number, key: string) => Promise<void>',
  ],
  'docs/guides/queues.md': [
    'interface Order { readonly id: string }',
    'declare const ship: (order: Order, key: string) => Promise<void>',
  ],
  'docs/guides/pipelines.md': [
    'interface ItemOrder { readonly user: string; readonly item: string; readonly cents: number }',
    "declare const orderSource: import('reprise/pipeline').Source<ItemOrder>",
    "declare const itemSink: import('reprise/pipeline').Sink<import('reprise/pipeline').KeyedResult<number>>",
    'const rate = { onRecord: (order: ItemOrder, ctx: { emit(order: ItemOrder): void }): void => ctx.emit(order) }',
    'interface Visit { readonly user: string; readonly page: string; readonly ms: number; readonly at: number }',
    "declare const visitSource: import('reprise/pipeline').Source<Visit>",
    "declare const lateSink: import('reprise/pipeline').Sink<Visit>",
    "declare const fastSink: import('reprise/pipeline').Sink<Visit>",
    "declare const activeSink: import('reprise/pipeline').Sink<{ user: string; pages: number }>",
    "declare const shop: import('reprise/pipeline').PipelineDefinition",
    'interface Order { readonly id: string; readonly cents: number; readonly customer: string; readonly at: number }',
    'declare const url: string',
    'declare const brokers: string[]',
    'interface Price { readonly cents: number }',
    "declare const p: import('reprise/pipeline').PipelineBuilder",
    "declare const orders: import('reprise/pipeline').Stream<{ readonly sku: string }>",
    "declare const sales: import('reprise/pipeline').KeyedStream<{ readonly id: string; readonly cents: number }>",
    "declare const payments: import('reprise/pipeline').KeyedStream<{ readonly paid: number }>",
    "declare const prices: import('reprise/pipeline').KeyedStream<Price>",
    "declare const stock: import('reprise/pipeline').KeyedStream<number>",
    "declare const customers: import('reprise/pipeline').KeyedStream<{ readonly name: string }>",
    'declare const app: { post(path: string, take: (c: { readonly req: { readonly raw: Request } }) => unknown): void }',
    ...['describe', 'it', 'source', 'expected', 'add', 'forget', 'destroy', 'sink', 'visible'].map(
      (name) => `declare const ${name}: never`,
    ),
  ],
  'docs/guides/tables.md': ['interface Fact { readonly text: string }'],
  'docs/guides/agents.md': [
    'declare const shop: { look(order: string): Promise<string> }',
    'declare const bank: { refund(cents: number, key: string): Promise<{ id: string }>; undo(id: string): Promise<void> }',
    'declare const post: { send(text: string, key: string): Promise<void> }',
    "declare const callModel: (...given: readonly unknown[]) => Promise<import('reprise/agent').ModelAnswer>",
    "declare const session: import('reprise/agent').Session<{ order: string }>",
    "declare const claude: import('reprise/agent').LanguageModel<null>",
  ],
  'docs/guides/langgraph.md': [
    "declare const builder: { compile(options: { checkpointer: import('@langchain/langgraph-checkpoint').BaseCheckpointSaver }): unknown }",
    "declare const run: typeof import('@openai/agents').run",
    "declare const agent: import('@openai/agents').Agent",
    "declare const wrapLanguageModel: typeof import('ai').wrapLanguageModel",
    "declare function provider(name: string): Parameters<typeof import('ai').wrapLanguageModel>[0]['model']",
    "declare const refund: import('ai').Tool",
  ],
}
