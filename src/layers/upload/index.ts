// reprise/upload: large files that arrive in pieces, across broken connections and crashes. The tus protocol.

export type { CompleteContext, OnComplete, Startable } from './completion.ts'
export { type UploadDefinition, type UploadOptions, upload } from './definition.ts'
export type { UploadedFile } from './file.ts'
export type { AuthorizeUpload, Authorizing, HandlerOptions, UploadHandler } from './handler.ts'
export type { Accept, Offered } from './protocol.ts'
