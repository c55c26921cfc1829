// Disk states that a power loss may leave, rebuilt from recorded operations (the idea of ALICE and dm-log-writes).
//
// The model, stricter than real file systems:
// - Writes to a file before its last finished sync survive. Each later write or truncation survives, is lost, or
//   survives up to a border of a sector (512 bytes), independently of the others.
// - A name (made, renamed, removed) is certain after its folder was synced, not before, and not by syncing the file. Names
//   of one folder change in order: some prefix of the unsynced changes survives. A rename survives as a whole or not at all.

import { dirname as folderOf } from 'node:path'
import type { Chance } from '../programs/crash-model.mjs'
import type { Operation } from './strace.ts'

const sectorBytes = 512

type DataOperation = Extract<Operation, { kind: 'write' | 'truncate' }>

interface File {
  readonly changes: { readonly at: number; readonly operation: DataOperation; readonly offset: number }[]
  syncedAt: number
  size: number
}

/** A change of names, in the folders it touches. */
interface Naming {
  readonly at: number
  readonly folders: readonly string[]
  readonly isFolder: boolean
  readonly from: string | null
  readonly to: string | null
  readonly file: File | null
}

/** `fate`: draw each unsynced operation, or do the same with all of them. */
export type Fate = 'drawn' | 'all lost' | 'all kept'

/** The files (by path) as they may be found if the power failed after the first `count` operations. */
export function stateAfter(
  operations: readonly Operation[],
  count: number,
  fate: Fate,
  random: Chance,
): Map<string, Uint8Array> {
  const { namings, syncedFolders } = follow(operations, count)
  const names = survivingNames(namings, syncedFolders, fate, random)
  const state = new Map<string, Uint8Array>()
  for (const [path, file] of names.files) {
    if (hasFolders(path, operations, names.folders)) state.set(path, contentOf(file, fate, random))
  }
  return state
}

function follow(operations: readonly Operation[], count: number) {
  const files = new Map<string, File>()
  const namings: Naming[] = []
  const syncedFolders = new Map<string, number>()
  const make = (path: string, at: number): File => {
    const file: File = { changes: [], syncedAt: -1, size: 0 }
    files.set(path, file)
    namings.push({ at, folders: [folderOf(path)], isFolder: false, from: null, to: path, file })
    return file
  }
  for (let at = 0; at < count; at++) {
    const operation = operations[at]!
    if (operation.kind === 'said') continue
    const { path } = operation
    const file = files.get(path)
    switch (operation.kind) {
      case 'create':
        if (!file) make(path, at)
        else if (operation.isEmptied) change(file, at, { kind: 'truncate', path, size: 0 })
        break
      case 'write':
      case 'truncate':
        change(file ?? make(path, at), at, operation)
        break
      case 'sync':
        if (file) file.syncedAt = at
        else syncedFolders.set(path, at)
        break
      case 'folder':
        namings.push({ at, folders: [folderOf(path)], isFolder: true, from: null, to: path, file: null })
        break
      case 'remove':
        files.delete(path)
        namings.push({ at, folders: [folderOf(path)], isFolder: false, from: path, to: null, file: null })
        break
      case 'rename': {
        const folders = [...new Set([folderOf(operation.to), folderOf(path)])]
        namings.push({ at, folders, isFolder: false, from: path, to: operation.to, file: file ?? null })
        files.delete(path)
        if (file) files.set(operation.to, file)
      }
    }
  }
  return { namings, syncedFolders }
}

function change(file: File, at: number, operation: DataOperation): void {
  const offset = operation.kind === 'write' ? (operation.offset ?? file.size) : 0
  file.changes.push({ at, operation, offset })
  file.size = operation.kind === 'write' ? Math.max(file.size, offset + operation.bytes.length) : operation.size
}

/** For each folder, the position up to which its changes survive; a rename belongs to its target folder. */
function survivingNames(
  namings: readonly Naming[],
  syncedFolders: ReadonlyMap<string, number>,
  fate: Fate,
  random: Chance,
) {
  const reached = new Map<string, number>()
  for (const folder of new Set(namings.flatMap((naming) => naming.folders))) {
    const synced = syncedFolders.get(folder) ?? -1
    const open = namings.filter(({ folders, at }) => folders[0] === folder && at > synced)
    const kept = fate === 'all kept' ? open.length : fate === 'all lost' ? 0 : random.below(open.length + 1)
    reached.set(folder, kept === 0 ? synced : open[kept - 1]!.at)
  }
  const files = new Map<string, File>()
  const folders = new Set<string>()
  for (const naming of namings) {
    // Syncing either folder of a rename makes it certain.
    const isCertain = naming.folders.some((folder) => (syncedFolders.get(folder) ?? -1) > naming.at)
    if (!isCertain && naming.at > reached.get(naming.folders[0]!)!) continue
    if (naming.isFolder) folders.add(naming.to!)
    if (naming.from !== null) files.delete(naming.from)
    if (naming.to !== null && naming.file) files.set(naming.to, naming.file)
  }
  return { files, folders }
}

/** A file is reachable only if every folder on its path survived. */
function hasFolders(path: string, operations: readonly Operation[], folders: ReadonlySet<string>): boolean {
  for (let folder = folderOf(path); folder !== folderOf(folder); folder = folderOf(folder)) {
    if (folders.has(folder)) continue
    if (operations.some((operation) => operation.kind === 'folder' && operation.path === folder)) return false
  }
  return true
}

function contentOf(file: File, fate: Fate, random: Chance): Uint8Array {
  let bytes: Uint8Array = new Uint8Array(file.size)
  let size = 0
  for (const { at, operation, offset } of file.changes) {
    const isKept = at <= file.syncedAt || fate === 'all kept' || (fate === 'drawn' && random.chance(0.5))
    const isTorn = !isKept && fate === 'drawn' && operation.kind === 'write' && random.chance(0.35)
    if (!isKept && !isTorn) continue
    if (operation.kind === 'truncate') {
      if (operation.size < size) bytes.fill(0, operation.size, size)
      size = operation.size
      bytes = roomFor(bytes, size)
      continue
    }
    const piece = isKept ? operation.bytes : operation.bytes.subarray(0, tear(offset, operation.bytes.length, random))
    bytes = roomFor(bytes, offset + piece.length)
    bytes.set(piece, offset)
    size = Math.max(size, offset + piece.length)
  }
  return bytes.subarray(0, size)
}

/** Where a write broke off: at a border between sectors. */
function tear(offset: number, length: number, random: Chance): number {
  const first = sectorBytes - (offset % sectorBytes)
  const borders = length > first ? Math.ceil((length - first) / sectorBytes) : 0
  return borders === 0 ? 0 : first + sectorBytes * random.below(borders)
}

function roomFor(bytes: Uint8Array, size: number): Uint8Array {
  if (bytes.length >= size) return bytes
  const larger = new Uint8Array(size)
  larger.set(bytes)
  return larger
}
