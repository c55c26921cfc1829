// reprise/openai-agents: a Session for the OpenAI Agents SDK.

export { RepriseSession, type RepriseSessionOptions } from './session.ts'
