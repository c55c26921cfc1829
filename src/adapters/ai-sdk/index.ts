// reprise/ai-sdk: model calls of the Vercel AI SDK recorded and replayed, tools as effects.

export { type CompensateCall, type EffectTool, Recorder, type RecorderOptions, record } from './recorder.ts'
