// The tie between a Keyed and the checkpoints it is in. A capture freezes the pages, takes over the names of the changed
// keys and remembers both until it is known what became of it: the next capture either builds on it (it was published)
// or does not (it was not, and its changes go back). So no order of failures can lose a change.

import type { Segment } from '../checkpoint/manifest.ts'
import type { Page, PageWrite } from './page.ts'
import type { KeyedTree, TreeSnapshot } from './tree.ts'

/** Stands for one capture. The next one shows it to say: this was published. */
export interface Mark {
  readonly mark: true
}

export class KeyedCapture<V> {
  readonly tree: KeyedTree<V>
  snapshot: TreeSnapshot<V>
  /** Keys changed since the capture that this one builds on; null: too many to name. */
  readonly changed: ReadonlySet<string> | null
  /** False: nothing that is stored may be relied on, all of it is written. */
  readonly canBuild: boolean
  readonly mark: Mark = { mark: true }
  readonly #write: PageWrite

  constructor(tree: KeyedTree<V>, published: Mark | null) {
    const { line } = tree
    if (line.pending) {
      if (line.pending.mark === published) line.mark = published
      else line.pending.abandon()
      line.pending = null
    }
    this.tree = tree
    this.canBuild = published !== null && line.mark === published
    if (!this.canBuild) line.lineage = {}
    this.#write = { lineage: line.lineage, isVoid: false }
    this.changed = tree.takeChanged()
    this.snapshot = tree.snapshot()
    line.pending = { mark: this.mark, abandon: () => this.abandon() }
  }

  get isAbandoned(): boolean {
    return this.#write.isVoid
  }

  /** As what the page is stored, if it was not touched since it was written in this line of checkpoints. */
  segmentsOf(page: Page<V>): readonly Segment[] | undefined {
    const { stored } = page
    return stored && stored.write.lineage === this.#write.lineage && !stored.write.isVoid ? stored.segments : undefined
  }

  noteStored(page: Page<V>, segments: readonly Segment[]): void {
    page.stored = { write: this.#write, segments }
  }

  /** Lets go of the frozen pages once they are written; what to do if it fails after all is still known. */
  release(): void {
    this.snapshot = { pages: [], bounds: [], size: 0 }
  }

  /** It was not published: pages written for it count as unwritten, its changes go into the next capture. */
  abandon(): void {
    if (this.#write.isVoid) return
    this.#write.isVoid = true
    this.tree.returnChanged(this.changed)
    if (this.tree.line.pending?.mark === this.mark) this.tree.line.pending = null
  }
}
