// The few handles that this process keeps open at a time. The least recently used one is closed first, unless it is in use.

interface Closable {
  readonly isBusy: boolean
  close(): Promise<void>
}

export class OpenHandles<Handle extends Closable> {
  readonly #max: number
  /** Least recently used first. */
  readonly #open = new Map<string, { readonly handle: Handle; users: number }>()

  constructor(max: number) {
    this.#max = max
  }

  /** Keeps the handle open at least until the work is done. */
  async use<T>(id: string, open: () => Handle, work: (handle: Handle) => Promise<T>): Promise<T> {
    const held = this.#open.get(id) ?? { handle: open(), users: 0 }
    this.#open.delete(id)
    this.#open.set(id, held)
    held.users += 1
    try {
      return await work(held.handle)
    } finally {
      held.users -= 1
      await this.#evict()
    }
  }

  async close(): Promise<void> {
    const open = [...this.#open.values()]
    this.#open.clear()
    await Promise.all(open.map(({ handle }) => handle.close()))
  }

  async #evict(): Promise<void> {
    for (const [id, { handle, users }] of this.#open) {
      if (this.#open.size <= this.#max) return
      if (users > 0 || handle.isBusy) continue
      this.#open.delete(id)
      await handle.close()
    }
  }
}
