// One process at a time for a file that is assembled over time. The lock is a file beside it that names its process, and is
// touched while that process lives. A lock whose process has exited, or that was not touched for a minute, is taken over.

import { createHash, randomBytes } from 'node:crypto'
import { readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { RepriseError } from '../core/errors.ts'
import { identifyProcess, isProcessGone } from '../engine/base/platform.ts'
import { isExisting } from '../lib/durable-file.ts'

const beatMs = 5_000
const deadMs = 60_000

interface Holder {
  readonly host: string
  readonly process: string
  /** Id of this lock: a process may take several, one after another. */
  readonly lock: string
}

export class FileLock {
  readonly #file: string
  readonly #content: string
  readonly #beat: NodeJS.Timeout

  private constructor(file: string, content: string) {
    this.#file = file
    this.#content = content
    this.#beat = setInterval(() => {
      const now = new Date()
      utimes(file, now, now).catch(() => undefined)
    }, beatMs).unref()
  }

  /** OWNED: another process has it. @example const lock = await FileLock.take('a.bin.part.lock', 'a.bin') */
  static async take(file: string, what: string): Promise<FileLock> {
    const { host, process } = identifyProcess()
    const content = JSON.stringify({ host, process, lock: randomBytes(8).toString('hex') } satisfies Holder)
    for (;;) {
      if (await madeAnew(file, content)) return new FileLock(file, content)
      const held = await readFile(file, 'utf8').catch(() => null)
      // The holder has just released the lock.
      if (held === null) continue
      if ((await isDead(file, held)) && (await takenOver(file, held, content))) return new FileLock(file, content)
      const why = `another process is using ${what}`
      throw new RepriseError('OWNED', `${why}: wait for it, or delete ${file} if no such process exists`, { file })
    }
  }

  /** OWNED: this process was considered dead, and another one took over. */
  async check(): Promise<void> {
    if ((await readFile(this.#file, 'utf8').catch(() => null)) === this.#content) return
    throw new RepriseError('OWNED', `another process took ${this.#file} over`, { file: this.#file })
  }

  async release(): Promise<void> {
    clearInterval(this.#beat)
    if ((await readFile(this.#file, 'utf8').catch(() => null)) === this.#content) await rm(this.#file, { force: true })
  }
}

async function madeAnew(file: string, content: string): Promise<boolean> {
  try {
    await writeFile(file, content, { flag: 'wx' })
    return true
  } catch (error) {
    if (isExisting(error)) return false
    throw error
  }
}

/** A lock being written is briefly empty: then only its age matters. */
async function isDead(file: string, held: string): Promise<boolean> {
  const age = Date.now() - ((await stat(file).catch(() => null))?.mtimeMs ?? Date.now())
  if (age > deadMs) return true
  try {
    const holder = JSON.parse(held) as Holder
    const own = identifyProcess()
    const [name, boot] = holder.host.split('#')
    const [ownName, ownBoot] = own.host.split('#')
    return (name === ownName && boot !== ownBoot) || isProcessGone(holder, own)
  } catch {
    return false
  }
}

/**
 * Only one process can replace a given lock: the one that creates a file named after its content. It then reads the lock
 * again.
 */
async function takenOver(file: string, held: string, content: string): Promise<boolean> {
  const claim = `${file}.${createHash('sha256').update(held).digest('hex').slice(0, 16)}`
  if (!(await madeAnew(claim, content))) return false
  try {
    if ((await readFile(file, 'utf8').catch(() => null)) !== held) return false
    const own = `${claim}.new`
    await writeFile(own, content)
    await rename(own, file)
    return true
  } finally {
    await rm(claim, { force: true })
  }
}
