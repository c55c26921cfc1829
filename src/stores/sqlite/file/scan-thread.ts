// Runs statements that scan whole tables on a thread with its own connection: in a large file each of them takes seconds, which
// would block the event loop.

import { statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { RepriseError } from '../../../core/errors.ts'
import { runtime } from '../../../lib/runtime/index.ts'
import type { Driver, SqlRow } from './driver.ts'

/** Runs statements on the thread, and returns the result of each. */
export type ScanThread = (statements: readonly string[], signal?: AbortSignal) => Promise<AsideAnswer[]>

type AsideAnswer = { readonly rows: SqlRow[] } | { readonly error: Error }

const program = `
const { parentPort, workerData } = require('node:worker_threads')
const errorAnswer = (error) => ({ error: { message: String(error.message), errcode: error.errcode } })
try {
  const { DatabaseSync } = require(workerData.module)
  const database = new DatabaseSync(workerData.file, { readOnly: true })
  database.exec('PRAGMA busy_timeout = 5000')
  for (const sql of workerData.statements) {
    let answer
    try {
      answer = { rows: database.prepare(sql).all().map((row) => ({ ...row })) }
    } catch (error) {
      answer = errorAnswer(error)
    }
    parentPort.postMessage(answer)
  }
  database.close()
} catch (error) {
  parentPort.postMessage({ isOver: true, ...errorAnswer(error) })
}`

/** Smaller files are scanned quickly enough on the calling thread. */
const leastBytes = 8 * 1024 * 1024

/** Null: the file is small, is read directly, or has a driver that cannot be loaded by its name; or there are no threads. */
export function asideOf(driver: Driver, file: string, { isOnFile }: { readonly isOnFile: boolean }): ScanThread | null {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0
  if (size < leastBytes || !isOnFile || !runtime.Thread) return null
  try {
    const module = createRequire(import.meta.url).resolve(driver.name)
    return (statements, signal) => allAside(module, file, statements, signal)
  } catch {
    return null
  }
}

function allAside(
  module: string,
  file: string,
  statements: readonly string[],
  signal?: AbortSignal,
): Promise<AsideAnswer[]> {
  return new Promise((resolve, reject) => {
    const answers: AsideAnswer[] = []
    const worker = new runtime.Thread!(program, { eval: true, workerData: { module, file, statements } })
    const abort = () => {
      // A statement in progress is not interrupted, and nothing waits for it.
      worker.unref()
      void worker.terminate()
      reject(new RepriseError('ABORTED', 'the check of the file: aborted', {}, signal?.reason))
    }
    worker.on('message', (answer: ThreadAnswer) => {
      if (answer.isOver) reject(toError(answer.error!))
      else answers.push(answer.error ? { error: toError(answer.error) } : { rows: answer.rows! })
    })
    worker.on('error', reject)
    worker.on('exit', () => {
      signal?.removeEventListener('abort', abort)
      if (answers.length === statements.length) resolve(answers)
      else reject(new Error('the thread that checks the file ended early'))
    })
    signal?.addEventListener('abort', abort, { once: true })
    if (signal?.aborted) abort()
  })
}

interface ThreadAnswer {
  readonly rows?: SqlRow[]
  readonly error?: { readonly message: string; readonly errcode?: number }
  readonly isOver?: true
}

function toError({ message, errcode }: NonNullable<ThreadAnswer['error']>): Error {
  return Object.assign(new Error(message), errcode !== undefined && { errcode })
}
