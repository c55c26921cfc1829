// Visits the directories of a tree in path order, and keeps open only the ancestors of the current path.

import type { Folder } from './folder.ts'

export class DirectoryStack {
  readonly #root: Folder
  readonly #open: { readonly name: string; readonly folder: Folder }[] = []

  constructor(root: Folder) {
    this.#root = root
  }

  /** Opens the directory of these names; null if one of them is not a directory. `isMade`: missing directories are created. */
  async to(names: readonly string[], isMade: boolean): Promise<Folder | null> {
    let common = 0
    while (common < this.#open.length && this.#open[common]!.name === names[common]) common += 1
    await this.#backTo(common)
    for (const name of names.slice(common)) {
      const above = this.#open.at(-1)?.folder ?? this.#root
      const folder = isMade ? await above.make(name) : await above.enter(name)
      if (!folder) return null
      this.#open.push({ name, folder })
    }
    return this.#open.at(-1)?.folder ?? this.#root
  }

  async close(): Promise<void> {
    await this.#backTo(0)
  }

  async #backTo(depth: number): Promise<void> {
    while (this.#open.length > depth) await this.#open.pop()!.folder.close()
  }
}
