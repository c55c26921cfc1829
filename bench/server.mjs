// The HTTP API over real sockets, beside a bare handler of node:http that reads or writes the same row of a SQLite file, in the
// same process and with the same clients; and the feed as server-sent events to a thousand clients at once.

import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, createServer, request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import { open } from '../dist/index.js'
import { serve } from '../dist/server/index.js'
import { defaultServerLimits } from '../dist/server/limits.js'
import { listen } from '../dist/server/listen.js'
import { median } from './measure.mjs'

const token = 'x'.repeat(40)
const rounds = 10
const askedPerRound = 200
const clients = 16
const followers = 1000
const told = 20

async function place() {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-bench-'))
  const rp = await open(`sqlite:${join(folder, 'store.db')}`, { housekeeping: false })
  const server = serve(rp, { tokens: [{ name: 'bench', token, role: 'write' }] })
  const listening = await listen(server, { port: 0, limits: defaultServerLimits })
  const close = async () => {
    await Promise.all([listening.close(), server.close()])
    await rp.close()
    rmSync(folder, { recursive: true, force: true })
  }
  return { folder, url: listening.url, close }
}

/** A handler that does the minimum for one row: its columns and JSON are those of our response. */
async function bare(folder) {
  const db = new DatabaseSync(join(folder, 'bare.db'))
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  db.exec(
    'CREATE TABLE row (seq INTEGER PRIMARY KEY, timeline TEXT, epoch INTEGER, type TEXT, version INTEGER, time INTEGER, data TEXT, digest TEXT)',
  )
  const insert = db.prepare(
    "INSERT INTO row (timeline, epoch, type, version, time, data, digest) VALUES ('bench/one', 1, ?, 1, ?, ?, ?)",
  )
  const digest = 'd'.repeat(64)
  insert.run('added', Date.now(), JSON.stringify({ n: 1 }), digest)
  const select = db.prepare('SELECT * FROM row WHERE timeline = ? AND seq > ? ORDER BY seq LIMIT 1')
  const server = createServer((incoming, response) => {
    const answer = (value) => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(value))
    }
    if (incoming.method === 'GET') {
      const { digest: found, ...row } = select.get('bench/one', 0)
      const { timeline, seq, epoch } = row
      const entry = { ...row, data: JSON.parse(row.data) }
      return answer({ entries: [entry], next: null, coordinate: { timeline, seq, epoch, digest: found } })
    }
    const pieces = []
    incoming.on('data', (piece) => pieces.push(piece))
    incoming.on('end', () => {
      const [{ type, data }] = JSON.parse(Buffer.concat(pieces)).entries
      const seq = Number(insert.run(type, Date.now(), JSON.stringify(data), digest).lastInsertRowid)
      answer({ first: seq, seq, isDuplicate: false })
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    db.close()
  }
  return { url: `http://127.0.0.1:${server.address().port}`, close }
}

function ask(agent, url, body) {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST'
    const headers = { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) }
    const sent = request(url, { agent, method, headers }, (response) => {
      response.resume()
      response.on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`${response.statusCode}`))))
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** Requests per second of several clients, each with one connection. */
async function rate(url, body, count) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  let left = count
  const startedAt = performance.now()
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (left > 0) {
        left -= 1
        await ask(agent, url, body)
      }
    }),
  )
  const seconds = (performance.now() - startedAt) / 1000
  agent.destroy()
  return count / seconds
}

const entry = JSON.stringify({ entries: [{ type: 'added', data: { n: 1 } }] })

async function overHttp(path, body) {
  const here = await place()
  const plain = await bare(here.folder)
  try {
    const append = `${here.url}/v1/timelines/bench%2Fone/entries`
    await rate(append, entry, 1)
    for (const warm of [`${here.url}${path}`, plain.url]) await rate(warm, body, 5 * askedPerRound)
    // In turns, and the median of the rounds: other work of the machine affects both sides.
    const [ours, bareOnes] = [[], []]
    for (let n = 0; n < rounds; n++) {
      ours.push(await rate(`${here.url}${path}`, body, askedPerRound))
      bareOnes.push(await rate(plain.url, body, askedPerRound))
    }
    return { value: median(ours), baseline: median(bareOnes) }
  } finally {
    await plain.close()
    await here.close()
  }
}

/** Events per second that arrive at all clients together. */
async function broadcast() {
  const here = await place()
  const { port } = new URL(here.url)
  const sockets = []
  let events = 0
  let wake = () => undefined
  try {
    let ready = 0
    for (let n = 0; n < followers; n++) {
      const socket = connect(Number(port), '127.0.0.1')
      let isReady = false
      socket.on('data', (piece) => {
        const text = piece.toString('latin1')
        if (!isReady && text.includes('retry:')) {
          isReady = true
          ready += 1
        }
        events += text.split('event: entries').length - 1
        wake()
      })
      socket.on('error', () => undefined)
      socket.write(`GET /v1/feed/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\n\r\n`)
      sockets.push(socket)
    }
    const until = async (isDone) => {
      while (!isDone()) {
        await new Promise((resolve) => {
          wake = resolve
        })
      }
    }
    await until(() => ready === followers)
    const startedAt = performance.now()
    for (let n = 0; n < told; n++) {
      const wanted = events + followers
      await rate(`${here.url}/v1/timelines/bench%2Fone/entries`, entry, 1)
      await until(() => events >= wanted)
    }
    const seconds = (performance.now() - startedAt) / 1000
    return { value: (followers * told) / seconds, details: { msUntilAllHaveIt: (1000 * seconds) / told } }
  } finally {
    for (const socket of sockets) socket.destroy()
    await here.close()
  }
}

export default [
  {
    name: 'read-over-http',
    unit: 'requests/s',
    target: { ratioMin: 0.5 },
    note: 'one entry of a timeline, over a bare handler that selects one row',
    run: () => overHttp('/v1/timelines/bench%2Fone/history?limit=1', undefined),
  },
  {
    name: 'append-over-http',
    unit: 'requests/s',
    target: { ratioMin: 0.3 },
    note: 'one durable entry, over a bare handler that inserts one row with synchronous = FULL',
    run: () => overHttp('/v1/timelines/bench%2Fone/entries', entry),
  },
  { name: 'sse-1000-clients', unit: 'events/s', note: 'each entry to 1,000 clients', run: broadcast },
]
