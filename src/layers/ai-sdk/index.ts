// reprise/ai-sdk: model calls of the Vercel AI SDK recorded and replayed, tools as effects.
export {}
