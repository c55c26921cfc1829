// reprise/ai-sdk: records and replays model calls of the Vercel AI SDK, and runs tools as effects.

export { type CompensateCall, type EffectTool, Recorder, type RecorderOptions, record } from './recorder.ts'
