// The declared inputs of a command: files below its directory, and, for patterns that begin with `../`, files of parent
// folders, such as the lock file of a workspace or a neighbour package. Each folder is scanned separately, with its own
// record of known digests.

import { resolve } from 'node:path'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { digestOfText } from './file-list.ts'
import type { FileDigests, Look } from './files.ts'
import { SeenFilesStore } from './seen-files.ts'

/**
 * Patterns by their leading `../`: '' for the directory itself, '../' for its parent.
 * @example byFolder(['src/**', '!../x/**']) // Map { '' => ['src/**'], '../' => ['!x/**'] }
 * /
 */
export function byFolder(patterns: readonly string[]): Map<string, string[]> {
  const groups = new Map<string, string[]>([['', []]])
  for (const pattern of patterns) {
    const [, not = '', up = '', rest = pattern] = /^(!?)((?:\.\.\/)+)(.*)$/s.exec(pattern) ?? []
    groups.set(up, [...(groups.get(up) ?? []), not + rest])
  }
  return groups
}

interface InputFolder {
  readonly up: string
  readonly digests: FileDigests
  readonly store: SeenFilesStore
}

export class InputFiles {
  /** Digests of the directory itself, which also contains the outputs. */
  readonly here: FileDigests
  readonly #folders: readonly InputFolder[]

  static async load(kernel: Kernel, directory: string, inputs: readonly string[]): Promise<InputFiles> {
    const ups = [...byFolder(inputs).keys()]
    return new InputFiles(
      await Promise.all(
        ups.map(async (up) => {
          const store = new SeenFilesStore(kernel, resolve(directory, up))
          return { up, store, digests: await store.load() }
        }),
      ),
    )
  }

  private constructor(folders: readonly InputFolder[]) {
    this.#folders = folders
    this.here = folders[0]!.digests
  }

  /** Patterns of the last scan that no file matched. */
  get unmatched(): readonly string[] {
    return this.#folders.flatMap(({ up, digests }) => digests.unmatched.map((pattern) => up + pattern))
  }

  async look(inputs: readonly string[]): Promise<Look> {
    const groups = byFolder(inputs)
    const looks: { readonly up: string; readonly look: Look }[] = []
    for (const { up, digests } of this.#folders) looks.push({ up, look: await digests.look(groups.get(up) ?? []) })
    if (looks.length === 1) return looks[0]!.look
    const joined = (of: 'digest' | 'signature') =>
      digestOfText(JSON.stringify(looks.map(({ up, look }) => [up, look[of]])))
    return {
      digest: joined('digest'),
      signature: joined('signature'),
      async files() {
        const found: [string, string][] = []
        for (const { up, look } of looks) {
          for (const [path, digest] of Object.entries(await look.files())) found.push([up + path, digest])
        }
        return Object.fromEntries(found)
      },
    }
  }

  async save(): Promise<void> {
    for (const { store, digests } of this.#folders) await store.save(digests)
  }
}
