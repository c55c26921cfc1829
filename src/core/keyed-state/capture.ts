// Connects a Keyed with its checkpoints. A capture freezes the pages, records the names of the changed keys and keeps both
// until its outcome is known: the next capture either builds on it (it was published) or takes its changes back (it was
// not). So no order of failures can lose a change.

import type { Segment } from '../checkpoint/manifest.ts'
import type { Page, PageWrite } from './page.ts'
import type { KeyedTree, TreeSnapshot } from './page-tree.ts'

/** Identifies one capture. Passing it to the next capture confirms that this one was published. */
export interface Mark {
  readonly mark: true
}

export class KeyedCapture<V> {
  readonly tree: KeyedTree<V>
  snapshot: TreeSnapshot<V>
  /** Keys changed since the capture that this one builds on; null: too many to list. */
  readonly changed: ReadonlySet<string> | null
  /** False: no stored page may be reused, everything is written. */
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

  /** The stored segments of the page, if it is unchanged since it was written in this lineage of checkpoints. */
  segmentsOf(page: Page<V>): readonly Segment[] | undefined {
    const { stored } = page
    return stored && stored.write.lineage === this.#write.lineage && !stored.write.isVoid ? stored.segments : undefined
  }

  noteStored(page: Page<V>, segments: readonly Segment[]): void {
    page.stored = { write: this.#write, segments }
  }

  /** Releases the frozen pages once they are written; `abandon` still works afterwards. */
  release(): void {
    this.snapshot = { pages: [], bounds: [], size: 0 }
  }

  /** The capture was not published: its pages are treated as unwritten, its changes go into the next capture. */
  abandon(): void {
    if (this.#write.isVoid) return
    this.#write.isVoid = true
    this.tree.returnChanged(this.changed)
    if (this.tree.line.pending?.mark === this.mark) this.tree.line.pending = null
  }
}
