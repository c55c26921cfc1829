// Uploads over a real socket: ours beside @tus/server with files, and beside a plain PUT to a file. Client and server share one
// process. REPRISE_BENCH_BYTES is the size of an upload. @tus/server is a peer: npm install in bench/versus.

import { createHash, randomBytes } from 'node:crypto'
import { createWriteStream, mkdirSync, openSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { createAdaptorServer } from '@hono/node-server'
import { open } from '../dist/index.js'
import { upload } from '../dist/layers/upload/index.js'
import { pair, time } from './measure.mjs'
import { tusServer } from './support/peers.mjs'
import { temporaryFolder } from './support/stores.mjs'

const size = Number(process.env.REPRISE_BENCH_BYTES ?? 64 * 1024 * 1024)
const piece = 1024 * 1024
const tus = { 'tus-resumable': '1.0.0' }

async function listening(server) {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { port: server.address().port, close: () => new Promise((resolve) => server.close(resolve)) }
}

function ask(port, method, path, headers, bytes = null) {
  return new Promise((resolve, reject) => {
    const asked = request({ port, host: '127.0.0.1', method, path, headers }, (response) => {
      response.resume().once('end', () => resolve(response))
    })
    asked.once('error', reject)
    if (bytes === null) return asked.end()
    const write = (at) => {
      if (at >= bytes.length) return asked.end()
      if (asked.write(bytes.subarray(at, at + piece))) setImmediate(() => write(at + piece))
      else asked.once('drain', () => write(at + piece))
    }
    write(0)
  })
}

/** MB/s of one upload in one request, with different bytes each time. */
async function tusRate(port, path) {
  const bytes = randomBytes(size)
  const { elapsedMs } = await time(async () => {
    const made = await ask(port, 'POST', path, { ...tus, 'upload-length': size, 'content-length': 0 })
    const at = new URL(made.headers.location, `http://127.0.0.1:${port}`).pathname
    const type = 'application/offset+octet-stream'
    const sent = await ask(
      port,
      'PATCH',
      at,
      { ...tus, 'upload-offset': 0, 'content-type': type, 'content-length': size },
      bytes,
    )
    if (sent.statusCode !== 204 || Number(sent.headers['upload-offset']) !== size)
      throw new Error(`answered ${sent.statusCode}`)
  })
  return size / 1e6 / (elapsedMs / 1000)
}

async function putRate(port) {
  const bytes = randomBytes(size)
  const { elapsedMs } = await time(() =>
    ask(port, 'PUT', `/${createHash('sha1').update(bytes).digest('hex')}`, { 'content-length': size }, bytes),
  )
  return size / 1e6 / (elapsedMs / 1000)
}

async function ours(place) {
  const rp = await open(`sqlite:${place.path('store.db')}`, { housekeeping: false })
  const handler = upload('files').handler(rp, { path: '/files', authorize: () => true })
  const server = await listening(createAdaptorServer({ fetch: handler }))
  return { rate: () => tusRate(server.port, '/files'), close: () => server.close().then(() => rp.close()) }
}

function versus(name, note, other) {
  let place
  let mine
  let theirs
  return {
    name,
    unit: 'MB/s',
    note,
    async setup() {
      place = temporaryFolder()
      mine = await ours(place)
      theirs = await other(place)
    },
    run: (given) =>
      theirs
        ? pair({ value: mine.rate, baseline: theirs.rate })(given)
        : { skip: 'its peer is not installed: npm install in bench/versus' },
    async teardown() {
      await mine?.close()
      await theirs?.close()
      place?.remove()
    },
  }
}

export default [
  versus('upload-tus-server', 'beside @tus/server with its file store, which syncs nothing', async (place) => {
    mkdirSync(place.path('theirs'), { recursive: true })
    const handle = await tusServer(place.path('theirs'), '/files')
    if (!handle) return null
    const server = await listening(createServer(handle))
    return { rate: () => tusRate(server.port, '/files'), close: server.close }
  }),
  versus('upload-put', 'beside a PUT to a file that is synced at its end', async (place) => {
    const node = createServer(async (incoming, response) => {
      const fd = openSync(place.path(incoming.url.slice(1)), 'w')
      await pipeline(incoming, createWriteStream('', { fd, flush: true }))
      response.writeHead(204).end()
    })
    const server = await listening(node)
    return { rate: () => putRate(server.port), close: server.close }
  }),
]
