// An object store in memory, with every fault that a test needs: it stops before or after a request, loses the answer, or
// returns outdated lists. The answers to a process and the stored objects may differ.

import { type Meter, newMeter, type ObjectRow, type Objects, type Range } from '../../src/stores/s3/objects.ts'

export class Bucket {
  readonly objects = new Map<string, { readonly bytes: Uint8Array; readonly modifiedAt: number }>()
  /** Lists as they were after each change, newest last: for lists that come late. */
  readonly #lists: ObjectRow[][] = []
  now = 1_700_000_000_000

  changed(): void {
    this.now += 1
    this.#lists.push(this.#rows())
    if (this.#lists.length > 64) this.#lists.shift()
  }

  /** The state of this many changes ago. */
  rows(late = 0): ObjectRow[] {
    return late === 0 ? this.#rows() : (this.#lists.at(-1 - late) ?? this.#lists[0] ?? [])
  }

  #rows(): ObjectRow[] {
    return [...this.objects]
      .map(([key, { bytes, modifiedAt }]) => ({ key, bytes: bytes.length, modifiedAt }))
      .sort((a, b) => (a.key < b.key ? -1 : 1))
  }
}

/** Before a request it does nothing; after it, the work is done and the answer is lost. */
export type Fault = 'none' | 'before' | 'after' | 'late'

export class Killed extends Error {}

export class MemoryObjects implements Objects {
  readonly name = 's3://memory'
  readonly meter: Meter = newMeter()
  readonly #bucket: Bucket
  readonly #fault: (request: string) => Fault | Promise<Fault>
  #isDead = false

  constructor(bucket: Bucket, fault: (request: string) => Fault | Promise<Fault> = () => 'none') {
    this.#bucket = bucket
    this.#fault = fault
  }

  now(): number {
    return this.#bucket.now
  }

  async put(key: string, bytes: Uint8Array, onlyNew = false): Promise<boolean> {
    this.meter.puts += 1
    return await this.#do(`put ${key}`, () => {
      if (onlyNew && this.#bucket.objects.has(key)) return false
      this.#bucket.objects.set(key, { bytes: bytes.slice(), modifiedAt: this.#bucket.now })
      this.#bucket.changed()
      return true
    })
  }

  async get(key: string, range?: Range): Promise<Uint8Array | null> {
    this.meter.gets += 1
    return await this.#do(`get ${key}`, () => {
      const found = this.#bucket.objects.get(key)?.bytes
      if (!found) return null
      if (!range) return found.slice()
      if ('last' in range) return found.slice(Math.max(0, found.length - range.last))
      return found.slice(range.from, range.from + range.bytes)
    })
  }

  async list(prefix: string): Promise<ObjectRow[]> {
    this.meter.lists += 1
    return await this.#do(`list ${prefix}`, (late) =>
      this.#bucket.rows(late ? 3 : 0).filter(({ key }) => key.startsWith(prefix)),
    )
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      this.meter.deletes += 1
      await this.#do(`delete ${key}`, () => {
        if (this.#bucket.objects.delete(key)) this.#bucket.changed()
      })
    }
  }

  /** A killed process sends no further requests. */
  async #do<T>(request: string, work: (isLate: boolean) => T): Promise<T> {
    if (this.#isDead) throw new Killed()
    const fault = await this.#fault(request)
    if (fault === 'before') {
      this.#isDead = true
      throw new Killed()
    }
    const result = work(fault === 'late')
    if (fault === 'after') {
      this.#isDead = true
      throw new Killed()
    }
    return result
  }
}
