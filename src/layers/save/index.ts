// reprise/save: whole states, the last N kept, each verified; reads return the newest intact one.

export type { ByteSource } from '../../engine/checkpoint/chunk-writer.ts'
export type { Autosave } from './autosave.ts'
export type { Difference, Loaded, SaveComparison, SavedInfo, SaveReader } from './reader.ts'
export { type PutOptions, type SaveDefinition, type SaveHandle, type SaveOptions, save } from './save.ts'
