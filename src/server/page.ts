// The dashboard: one page, its scripts and its style, built by scripts/dashboard.mjs. The files contain no data: the page
// requests all data from the API with the person's session. The files are therefore public.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { Reply } from './reply.ts'
import type { ServerRequest } from './server-request.ts'

/** Beside the built server, or, when running from source, where the build writes it. */
const folders = ['../dashboard/', '../../dist/dashboard/'].map((path) => fileURLToPath(new URL(path, import.meta.url)))

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

interface PageFile {
  readonly type: string
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly packed: Uint8Array<ArrayBuffer>
}

export class Page {
  readonly #basePath: string
  #files: ReadonlyMap<string, PageFile> | null = null

  constructor(basePath: string) {
    this.#basePath = basePath
  }

  /** Null: no such file. */
  answer(request: ServerRequest): Reply | null {
    const path = request.path.slice(this.#basePath.length)
    this.#files ??= readAll()
    // The page names its files relative to itself.
    if (path === '' && this.#files.has('index.html')) {
      return new Reply(null, { location: `${this.#basePath}/` }, 308)
    }
    const name = path === '/' ? 'index.html' : path.slice(1)
    const file = this.#files.get(name)
    if (!file) return null
    const isPacked = /\bgzip\b/.test(request.header('accept-encoding') ?? '')
    return new Reply(isPacked ? file.packed : file.bytes, {
      'content-type': file.type,
      vary: 'accept-encoding',
      // The name of an asset contains the digest of its content.
      'cache-control': name === 'index.html' ? 'no-cache' : 'public, max-age=31536000, immutable',
      ...(isPacked && { 'content-encoding': 'gzip' }),
    })
  }
}

function readAll(): Map<string, PageFile> {
  const folder = folders.find((each) => existsSync(join(each, 'index.html')))
  const files = new Map<string, PageFile>()
  if (folder === undefined) return files
  for (const name of ['index.html', ...readdirSync(join(folder, 'assets')).map((file) => `assets/${file}`)]) {
    const type = types[name.slice(name.lastIndexOf('.') + 1)]
    if (type === undefined) continue
    const bytes = new Uint8Array(readFileSync(join(folder, name)))
    files.set(name, { type, bytes, packed: new Uint8Array(gzipSync(bytes)) })
  }
  return files
}
