// G7, absence: damage to the pages of a SQLite file that makes SQLite report missing or outdated rows. Cell counts are flipped,
// sectors and pages zeroed, pages swapped, written to the wrong place, or left as they were in an older state of the file.
// After each, every answer of the API is the truth or an error with a code, and after a refusal, verify finds the damage. An
// undetected fault prints the command that repeats it. More: REPRISE_PAGE_FAULTS=20000 npx vitest run test/damage/pages.test.ts

import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isReprise } from '../../src/index.ts'
import { amount, newFolder, removeFolder } from '../crash/support.ts'
import { type Chance, randomFrom } from '../programs/crash-model.mjs'
import { type Answer, answer, fillPages, growPages, holdSome, learnNames, questionsOf } from './pages-world.ts'
import { openAt } from './world.ts'

const folder = newFolder(true)
const file = join(folder, 'store.db')
const copy = join(folder, 'copy.db')
const pageBytes = 4096
const seed = amount('REPRISE_PAGE_SEED', 1)
const faults = amount('REPRISE_PAGE_FAULTS', 24)
const hours = 24 * 3_600_000

let final: Uint8Array
let olders: readonly Uint8Array[]
let truth: ReadonlyMap<string, Answer>

beforeAll(async () => {
  const versions: Uint8Array[] = []
  for (let round = 0; round < 4; round++) {
    const rp = await openAt({ file }, 10 + round)
    if (round === 0) await fillPages(rp)
    else await growPages(rp, round)
    if (round === 3) await holdSome(rp)
    await rp.close()
    versions.push(readFileSync(file))
  }
  final = versions.pop()!
  olders = versions
  restore(final)
  const { answers, found } = await look(true)
  expect(found).toBe(false)
  truth = answers
  expect([...truth.values()].filter((one) => typeof one !== 'string')).toEqual([])
})
afterAll(() => removeFolder(folder))

function restore(bytes: Uint8Array): void {
  writeFileSync(copy, bytes)
  copyFileSync(`${file}-ack`, `${copy}-ack`)
  for (const end of ['-wal', '-shm']) removeFolder(`${copy}${end}`)
}

/** Every answer, and whether verify found something. A file that does not open is found. */
async function look(isFirst = false): Promise<{ answers: Map<string, Answer>; found: boolean; code?: string }> {
  const answers = new Map<string, Answer>()
  let rp: Awaited<ReturnType<typeof openAt>>
  try {
    rp = await openAt({ file: copy }, 2)
  } catch (error) {
    if (isReprise(error)) return { answers, found: true, code: error.code }
    throw error
  }
  try {
    if (isFirst) await learnNames(rp)
    const found = await rp.verify().then(
      (report) => report.faults.length > 0,
      (error) => {
        if (isReprise(error)) return true
        throw error
      },
    )
    for (const question of questionsOf(rp)) answers.set(question[0], await answer(question))
    return { answers, found }
  } finally {
    await rp.close().catch((error) => {
      if (!isReprise(error)) throw error
    })
  }
}

interface Fault {
  readonly kind: (typeof kinds)[number]
  readonly page: number
  readonly other: number
}
const kinds = ['count', 'count', 'flip', 'sector', 'page', 'swap', 'misdirect', 'stale', 'stale', 'pointer'] as const

/** Where a page is a node of a B-tree: its header starts here. */
const headerOf = (page: number) => (page === 0 ? 100 : 0)
const isNode = (bytes: Uint8Array, page: number) =>
  [2, 5, 10, 13].includes(bytes[page * pageBytes + headerOf(page)] ?? 0)

function inflict({ kind, page, other }: Fault): Uint8Array {
  const bytes = new Uint8Array(final)
  const at = page * pageBytes + headerOf(page)
  const pageOf = (source: Uint8Array, index: number) => source.slice(index * pageBytes, (index + 1) * pageBytes)
  const view = new DataView(bytes.buffer)
  switch (kind) {
    case 'count': {
      const cells = view.getUint16(at + 3)
      view.setUint16(at + 3, [cells - 1, cells >> 1, 0, cells ^ (1 << (other % 8)), cells + 1][other % 5]! & 0xffff)
      break
    }
    case 'flip':
      bytes[page * pageBytes + (other % pageBytes)]! ^= 1 << (other % 8)
      break
    case 'sector':
      bytes.fill(0, page * pageBytes + (other % 8) * 512, page * pageBytes + (other % 8) * 512 + 512)
      break
    case 'page':
      bytes.fill(0, page * pageBytes, (page + 1) * pageBytes)
      break
    case 'swap':
      bytes.set(pageOf(final, other), page * pageBytes)
      bytes.set(pageOf(final, page), other * pageBytes)
      break
    case 'misdirect':
      bytes.set(pageOf(final, page), other * pageBytes)
      break
    case 'stale': {
      const older = pageOf(olders[other % olders.length]!, page)
      if (older.length === pageBytes) bytes.set(older, page * pageBytes)
      break
    }
    case 'pointer': {
      const place = at + 8 + (isLeaf(bytes[at]!) ? 0 : 4) + 2 * (other % Math.max(1, view.getUint16(at + 3)))
      if (place + 2 <= bytes.length) view.setUint16(place, view.getUint16(place) ^ (1 << (other % 12)))
      break
    }
  }
  return bytes
}

const isLeaf = (type: number) => type === 10 || type === 13

function draw(random: Chance): Fault {
  const count = final.length / pageBytes
  const kind = kinds[random.below(kinds.length)]!
  // Nodes of B-trees, mostly: the rest is the bytes of chunks, which have digests.
  for (let attempt = 0; ; attempt++) {
    const page = random.below(count)
    const other = kind === 'swap' || kind === 'misdirect' ? random.below(count) : random.below(1 << 20)
    const isPair = kind === 'swap' || kind === 'misdirect'
    if (attempt > 50) return { kind, page, other }
    if (!isNode(final, page) || (isPair && (page === other || !isNode(final, other)))) continue
    if (kind === 'stale' && isSame(page, olders[other % olders.length]!)) continue
    return { kind, page, other }
  }
}

function isSame(page: number, older: Uint8Array): boolean {
  const [a, b] = [final, older].map((bytes) => Buffer.from(bytes.subarray(page * pageBytes, (page + 1) * pageBytes)))
  return a!.equals(b!)
}

async function judge(fault: Fault): Promise<string> {
  restore(inflict(fault))
  const { answers, found, code } = await look()
  if (code) return `refused at open: ${code}`
  let refused = 0
  for (const [question, given] of answers) {
    if (typeof given !== 'string') refused += 1
    else if (question === 'claims' && isAllButQuarantined(given, String(truth.get(question)))) continue
    else if (given !== truth.get(question))
      return `SILENT ${question}: ${difference(given, String(truth.get(question)))}`
  }
  if (refused > 0 && !found)
    return `UNFOUND by verify: ${JSON.stringify([...answers].filter(([, one]) => typeof one !== 'string'))}`
  return refused > 0 ? 'refused' : found ? 'found by verify alone' : 'equal'
}

/** Every due timeline is claimed, in order; only timelines whose reads are refused may be missing. */
function isAllButQuarantined(given: string, expected: string): boolean {
  type Claims = { readonly taken: readonly string[]; readonly quarantined: readonly string[] }
  const { taken, quarantined } = JSON.parse(given) as Claims
  const due = (JSON.parse(expected) as Claims).taken.filter(
    (name) => taken.includes(name) || !quarantined.includes(name),
  )
  return JSON.stringify(taken) === JSON.stringify(due)
}

function difference(a: string, b: string): string {
  let at = 0
  while (at < a.length && a[at] === b[at]) at += 1
  return `…${a.slice(Math.max(0, at - 40), at + 60)}… for …${b.slice(Math.max(0, at - 40), at + 60)}…`
}

async function run(all: Iterable<Fault>): Promise<void> {
  const seen = new Map<string, number>()
  const missed: string[] = []
  for (const fault of all) {
    const verdict = await judge(fault).catch((error) => `UNTYPED ${(error as Error).stack}`)
    const word = /^(SILENT|UNFOUND|UNTYPED)/.exec(verdict)?.[0] ?? verdict
    seen.set(word, (seen.get(word) ?? 0) + 1)
    if (word !== verdict) {
      const { kind, page, other } = fault
      missed.push(`${verdict}\n  REPRISE_PAGE_FAULT=${kind}:${page}:${other} npx vitest run test/damage/pages.test.ts`)
    }
  }
  console.log(`damaged pages: ${JSON.stringify(Object.fromEntries([...seen].sort()))}`)
  expect(missed.slice(0, 40), `${missed.length} got through`).toEqual([])
}

function* drawn(count: number): Generator<Fault> {
  const random = randomFrom(seed)
  for (let i = 0; i < count; i++) yield draw(random)
}

describe('damaged pages', () => {
  const given = process.env.REPRISE_PAGE_FAULT?.split(':')

  if (given) {
    const [kind, page, other] = given
    const asked = { kind: kind as Fault['kind'], page: Number(page), other: Number(other) }
    it('G7: the requested one', async () => await run([asked]), hours)
  } else it('G7: nothing is missing, or old, in silence', async () => await run(drawn(faults)), hours)
})
