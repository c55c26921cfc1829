// The distance of an append from its lower bound: node bench/support/append-floor.mjs [ROUNDS] [FOLDER] [NAME=PATH…]. In turns
// in one process, processor time per entry: the engine; the bare driver, as in the suite `kernel`; and the parts that an append
// needs, written by hand in one loop: text into bytes, the chain of digests, the row with its checksum and the statement that
// reads the end of the log, the check of the folder, the acknowledged mark, the fold, and a promise for the caller. NAME=PATH:
// other builds of the engine to measure beside this one (PATH is that of its index.js).

import { hash } from 'node:crypto'
import { closeSync, openSync, rmSync, statSync, writeSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { median } from '../measure.mjs'
import { bareSqlite, temporaryFolder } from './stores.mjs'
import { entries, payloads } from './workload.mjs'

const [rounds = '30', folder, ...others] = process.argv.slice(2)
if (folder) process.env.REPRISE_BENCH_DIR = folder
const builds = [
  ['engine', new URL('../../dist/index.js', import.meta.url).href],
  ...others.map((text) => text.split('=')),
]

/** Timelines at once, entries per append, appends per chunk. */
const modes = [
  { name: 'one by one', timelines: 1, perAppend: 1, chunk: 1500 },
  { name: '64 timelines', timelines: 64, perAppend: 1, chunk: 100 },
  { name: '1,024 timelines', timelines: 1024, perAppend: 1, chunk: 10 },
  { name: '256 entries per append', timelines: 1, perAppend: 256, chunk: 40 },
]

async function engine(path, file, { timelines, perAppend }) {
  const { open, timeline } = await import(path)
  const notes = timeline('notes', {
    initial: () => ({ count: 0, length: 0 }),
    apply: (state, entry) => ({ count: state.count + 1, length: state.length + entry.text.length }),
  })
  const ours = await open(`sqlite:${file}`)
  const handles = []
  for (let i = 0; i < timelines; i++) handles.push(await ours.open(notes, `t${i}`))
  const append = async (handle, t, count) => {
    for (let i = 0; i < count; i++) {
      const at = (t * 7 + i) % 256
      await handle.append(perAppend === 1 ? entries[at] : entries.slice(at, at + perAppend))
    }
  }
  return {
    work: (count) => Promise.all(handles.map((handle, t) => append(handle, t, count))),
    close: () => ours.close(),
  }
}

async function bare(file, { timelines, perAppend }) {
  const { db, insert } = await bareSqlite(file)
  const rows = timelines * perAppend
  const work = (count) => {
    for (let i = 0; i < count; i++) {
      if (rows > 1) db.exec('BEGIN IMMEDIATE')
      for (let t = 0; t < rows; t++) insert.run(t, i, payloads[(t * 7 + i) % 512])
      if (rows > 1) db.exec('COMMIT')
    }
  }
  return { work, close: () => db.close() }
}

const end = '(SELECT max(position) FROM log)'
const version = "(SELECT value FROM meta WHERE key = 'version')"

async function floor(file, { timelines, perAppend }) {
  const { db } = await bareSqlite(file)
  db.exec('CREATE TABLE log (position INTEGER PRIMARY KEY, body BLOB)')
  db.exec("CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID; INSERT INTO meta VALUES ('version', 1)")
  const insert = db.prepare(
    `INSERT INTO log VALUES (iif(?1 = 1 + coalesce(${end}, 0) AND ${version} = 1, ?1, 'not the end'), ?2)`,
  )
  const mark = openSync(`${file}-ack`, 'w')
  const slot = new DataView(new ArrayBuffer(24))
  const encoder = new TextEncoder()
  const run = new Uint8Array(256 * 1024)
  const row = new Uint8Array(1024 * 1024)
  const lines = Array.from({ length: timelines }, () => ({ count: 0, length: 0, digest: new Uint8Array(32) }))
  let position = 0

  const pack = (line, first) => {
    run.set(line.digest)
    let size = 32 + 12
    for (let i = 0; i < perAppend; i++) {
      const { type, text } = entries[(first + i) % 512]
      const event = { text, type }
      size += 20 + encoder.encodeInto(event.text, run.subarray(size + 20)).written
      line.count += 1
      line.length += event.text.length
    }
    const digest = hash('sha256', run.subarray(0, size), 'binary')
    line.digest = new Uint8Array(32)
    for (let i = 0; i < 32; i++) line.digest[i] = digest.charCodeAt(i)
    return size
  }
  const commit = (i) => {
    let at = 8
    for (let t = 0; t < timelines; t++) {
      const size = pack(lines[t], t * 7 + i)
      row.set(run.subarray(32, size), at + 48)
      row[at] = crc32(row.subarray(at + 4, at + 16 + size))
      at += 16 + size
    }
    const body = row.subarray(0, at)
    position += 1
    insert.run(position, body)
    statSync(folder ?? '.')
    slot.setUint32(4, body.length, true)
    slot.setUint32(8, crc32(body), true)
    slot.setBigUint64(16, BigInt(position), true)
    slot.setUint32(0, crc32(new Uint8Array(slot.buffer, 4)), true)
    writeSync(mark, slot, 0, 24, (position % 2) * 24)
  }
  const work = async (count) => {
    for (let i = 0; i < count; i++) {
      const settle = []
      const waiting = lines.map(async () => await new Promise((resolve) => settle.push(resolve)))
      commit(i)
      for (const resolve of settle) resolve({ seq: position, isDuplicate: false })
      await Promise.all(waiting)
    }
  }
  const close = () => {
    db.close()
    closeSync(mark)
  }
  return { work, close }
}

for (const mode of modes) {
  const place = temporaryFolder()
  const makers = builds.map(([name, path]) => [name, () => engine(path, place.path(`${name}.db`), mode)])
  makers.push(['bare', () => bare(place.path('bare.db'), mode)], ['floor', () => floor(place.path('floor.db'), mode)])
  const sides = []
  for (const [name, make] of makers) sides.push({ name, cpu: [], wall: [], ...(await make()) })
  const perChunk = mode.chunk * mode.timelines * mode.perAppend
  for (const side of sides) await side.work(4 * mode.chunk)
  for (let round = 0; round < Number(rounds); round++) {
    for (const side of round % 2 ? sides.toReversed() : sides) {
      const cpu = process.cpuUsage()
      const started = performance.now()
      await side.work(mode.chunk)
      side.wall.push(((performance.now() - started) * 1000) / perChunk)
      const { user, system } = process.cpuUsage(cpu)
      side.cpu.push((user + system) / perChunk)
    }
  }
  const low = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 10)]
  const { cpu, wall } = sides.find(({ name }) => name === 'bare')
  for (const side of sides) {
    const shown = [low(side.cpu), median(side.cpu), low(side.wall), median(side.wall)].map((us) => us.toFixed(2))
    const ratios = [low(cpu) / low(side.cpu), median(cpu) / median(side.cpu), median(wall) / median(side.wall)]
    process.stdout.write(
      `${mode.name}, ${side.name}: CPU µs per entry ${shown[0]} (low tenth) ${shown[1]} (median), wall ${shown[2]} ${shown[3]}; ` +
        `of bare: CPU ${ratios[0].toFixed(2)} ${ratios[1].toFixed(2)}, wall ${ratios[2].toFixed(2)}\n`,
    )
    await side.close()
  }
  place.remove()
  rmSync(place.folder, { recursive: true, force: true })
}
