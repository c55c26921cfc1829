// The memory store and its world.

export { type MemoryOptions, openMemory } from './store.ts'
export { type Cell, cells, createWorld, type MemoryWorld, snapshot } from './world.ts'
