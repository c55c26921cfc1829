// reprise/openai-agents: a Session for the OpenAI Agents SDK.

export type { RewriteArgs, TransactionArgs } from './session.ts'
export { RepriseSession, type RepriseSessionOptions } from './session.ts'
