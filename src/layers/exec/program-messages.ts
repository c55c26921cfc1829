// Words that the program may send on a pipe, or on a socket, which replies. One word per line:
//
//   capture [LABEL]          its files are complete: capture them now
//   savepoint [LABEL]        the same, and keep that capture until it is released
//   progress DONE[/TOTAL] [TEXT]   for people
//
// On the socket each line receives one reply: "captured SEQ", "refused WHY" or "ok".

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { constants, openSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type Server, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface Word {
  readonly kind: 'capture' | 'savepoint' | 'progress'
  /** The rest of the line, trimmed. */
  readonly text: string
  /** On a pipe the reply is discarded. */
  answer(line: string): void
}

const lineLengthMax = 4096

/** Null: not a word. @example parseWord('capture step 40') // { kind: 'capture', text: 'step 40' } */
export function parseWord(line: string): Pick<Word, 'kind' | 'text'> | null {
  const found = /^(capture|savepoint|progress)(?:\s+(.*))?$/.exec(line.trim())
  return found ? { kind: found[1] as Word['kind'], text: (found[2] ?? '').trim() } : null
}

export class Words {
  /** For the environment of the program; null if the system has no named pipes. */
  readonly pipe: string | null
  readonly socket: string | null
  readonly #folder: string
  readonly #server: Server | null
  readonly #pipeEnd: Socket | null
  readonly #clients: Set<Socket>

  private constructor(
    folder: string,
    pipe: { readonly path: string; readonly end: Socket } | null,
    socket: { readonly path: string; readonly server: Server; readonly clients: Set<Socket> } | null,
  ) {
    this.#folder = folder
    this.pipe = pipe?.path ?? null
    this.#pipeEnd = pipe?.end ?? null
    this.socket = socket?.path ?? null
    this.#server = socket?.server ?? null
    this.#clients = socket?.clients ?? new Set()
  }

  /** In a folder that only this user can enter. */
  static async open(onWord: (word: Word) => void): Promise<Words> {
    const folder = await mkdtemp(join(tmpdir(), 'reprise-exec-'))
    return new Words(folder, await openPipe(folder, onWord), await openSocket(folder, onWord))
  }

  async close(): Promise<void> {
    this.#pipeEnd?.destroy()
    for (const client of this.#clients) client.destroy()
    await new Promise<void>((resolve) => (this.#server ? this.#server.close(() => resolve()) : resolve()))
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** Sends a word to the `reprise exec` that this program runs under, and waits for the reply. */
export async function sendWord(socket: string, word: string): Promise<string> {
  return await new Promise((resolve, reject) => {
    let received = ''
    const client = connect(socket, () => client.write(`${word.replaceAll('\n', ' ')}\n`))
    client.setEncoding('utf8')
    client.on('data', (piece: string) => {
      received += piece
      if (!received.includes('\n')) return
      client.destroy()
      resolve(received.split('\n')[0]!)
    })
    client.on('error', reject)
    client.on('close', () => reject(new Error('there was no answer')))
  })
}

async function openPipe(folder: string, onWord: (word: Word) => void) {
  if (process.platform === 'win32') return null
  const path = join(folder, 'words')
  try {
    await promisify(execFile)('mkfifo', ['-m', '600', path])
  } catch {
    return null
  }
  // Also opened for writing, so that it does not end when the first writer closes it.
  const end = new Socket({
    fd: openSync(path, constants.O_RDWR | constants.O_NONBLOCK),
    readable: true,
    writable: false,
  })
  end.on('error', () => undefined)
  listen(end, () => undefined, onWord)
  end.unref()
  return { path, end }
}

async function openSocket(folder: string, onWord: (word: Word) => void) {
  const name = randomBytes(8).toString('hex')
  const path = process.platform === 'win32' ? `\\\\.\\pipe\\reprise-exec-${name}` : join(folder, 'socket')
  const clients = new Set<Socket>()
  const server = createServer((client) => {
    clients.add(client)
    client.on('close', () => clients.delete(client))
    client.on('error', () => undefined)
    listen(client, (line) => client.writable && client.write(`${line}\n`), onWord)
  })
  server.unref()
  const isListening = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(path, () => resolve(true))
  })
  return isListening ? { path, server, clients } : null
}

/** Reads line by line. A line that is too long is discarded. */
function listen(stream: Socket, answer: (line: string) => void, onWord: (word: Word) => void): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('data', (piece: string) => {
    const lines = (rest + piece).split('\n')
    rest = lines.pop()!.slice(0, lineLengthMax + 1)
    for (const line of lines) {
      const word = line.length > lineLengthMax ? null : parseWord(line)
      if (word) onWord({ ...word, answer })
      else answer('refused: unknown word; use capture, savepoint or progress')
    }
  })
}
