// Shared parts of the crash tests: starting child programs, storing their acknowledgements outside of the store, and the check
// after every crash. A randomised test prints its seed.

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { keyed, type Reprise, timeline } from '../../src/index.ts'
import { openDirectoryBlobs } from '../../src/stores/directory-blobs.ts'
import { openPostgres } from '../../src/stores/postgres/index.ts'
import { openSqlite } from '../../src/stores/sqlite/index.ts'
import { define, expected, show } from '../programs/crash-model.mjs'
import { programPath } from '../support/programs.ts'

export { programPath }

export type Where =
  | { readonly kind: 'sqlite'; readonly file: string; readonly chunks?: string }
  | { readonly kind: 'postgres'; readonly url: string; readonly schema: string }

/** A number from the environment, for longer runs than CI's. */
export function amount(name: string, otherwise: number): number {
  const given = Number(process.env[name])
  return Number.isSafeInteger(given) && given > 0 ? given : otherwise
}

/** In memory where the machine has such a folder: the tests that use it simulate the disk themselves. */
export function newFolder(inMemory = false): string {
  const parent = inMemory && existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
  return mkdtempSync(join(parent, 'reprise-crash-'))
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
}

/** Highest number that was acknowledged, by timeline. */
export type Acks = Map<string, number>

export class Child {
  readonly lines: string[] = []
  readonly acks: Acks = new Map()
  readonly process: ChildProcess
  readonly ended: Promise<void>
  errors = ''
  #rest = ''
  readonly #watchers = new Set<() => void>()

  constructor(program: string, options: unknown, env: NodeJS.ProcessEnv = {}) {
    this.process = spawn(process.execPath, [programPath(program), JSON.stringify(options)], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    })
    this.process.stderr!.on('data', (piece) => {
      this.errors += String(piece)
    })
    this.process.stdout!.on('data', (piece) => this.#take(String(piece)))
    this.ended = new Promise((resolve) => {
      // After this every line that was written has been read.
      this.process.once('close', () => {
        this.#tell()
        resolve()
      })
    })
  }

  get isOver(): boolean {
    return this.process.exitCode !== null || this.process.signalCode !== null
  }

  /** Resolves when a line satisfies the condition, or the child is over. */
  async until(condition: (child: this) => boolean): Promise<void> {
    while (!condition(this) && !this.isOver) {
      await new Promise<void>((resolve) => {
        const watcher = () => {
          this.#watchers.delete(watcher)
          resolve()
        }
        this.#watchers.add(watcher)
      })
    }
  }

  signal(name: NodeJS.Signals): void {
    this.process.kill(name)
  }

  tell(line: string): void {
    this.process.stdin!.write(`${line}\n`)
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.ended
  }

  #take(piece: string): void {
    const lines = (this.#rest + piece).split('\n')
    this.#rest = lines.pop()!
    for (const line of lines) {
      this.lines.push(line)
      noteAck(this.acks, line)
    }
    this.#tell()
  }

  #tell(): void {
    for (const watcher of this.#watchers) watcher()
  }
}

export function noteAck(acks: Acks, line: string): void {
  const [word, id, n] = line.split(' ')
  if (word === 'ACK' && id) acks.set(id, Math.max(acks.get(id) ?? 0, Number(n)))
}

export function mergeAcks(into: Acks, from: Acks): void {
  for (const [id, n] of from) into.set(id, Math.max(into.get(id) ?? 0, n))
}

export async function openStore(where: Where): Promise<Store> {
  if (where.kind === 'postgres') {
    return await openPostgres(where.url, { namespace: 'default', schema: where.schema, hash: sha256 })
  }
  const store = await openSqlite(where.file, { namespace: 'default', hash: sha256 })
  return where.chunks === undefined ? store : withBlobs(store, await openDirectoryBlobs(where.chunks))
}

export function withBlobs(store: Store, blobs: Store['blobs']): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'blobs') return blobs
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

export async function openEngine(where: Where): Promise<Reprise> {
  return createEngine({ store: await openStore(where) }, { worker: 'checker' })
}

export const definitions = define({ timeline, keyed })

/**
 * The conditions after any crash: every acknowledged entry exists exactly once and in order, the state is the fold of
 * history, and verify finds nothing. Returns the last number of each timeline.
 */
export async function checkAfterCrash(where: Where, acks: Acks, ids: readonly string[]): Promise<Acks> {
  const rp = await openEngine(where)
  const damaged: unknown[] = []
  rp.events.on('checkpoint-damaged', (event) => damaged.push(event))
  try {
    const found: Acks = new Map()
    for (const id of ids) {
      const last = await checkTimeline(rp, id, acks.get(id) ?? 0)
      if (last !== null) found.set(id, last)
    }
    expect(damaged, 'a crash never damages a checkpoint').toEqual([])
    const report = await rp.verify()
    expect(report.faults).toEqual([])
    return found
  } finally {
    await rp.close()
  }
}

/** Null: it was never created, and no write to it was acknowledged. */
async function checkTimeline(rp: Reprise, id: string, acked: number): Promise<number | null> {
  const [kind, name] = id.split('/') as ['plain' | 'ledger' | 'shelf', string]
  if (!(await rp.head(id))) {
    expect(acked, `${id} is gone, ${acked} of its entries were acknowledged`).toBe(0)
    return null
  }
  const handle = await rp.open(definitions[kind] as typeof definitions.plain, name, { takeover: true })
  const { last } = handle.state
  expect(last, `${id}: entries were acknowledged up to ${acked}, history ends at ${last}`).toBeGreaterThanOrEqual(acked)
  expect(show(handle.state)).toEqual(expected(kind, last))
  // Numbers are sequences: none missing, none twice.
  expect(handle.coordinate.seq).toBe(last)
  await handle.close()
  return last
}
