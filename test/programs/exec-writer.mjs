// A program that knows nothing of the library: it writes a set of files, step by step, and when it starts it looks whether
// the set that it finds is whole. Exits with 99 if it is not. How it writes is its first argument.

import { createHash } from 'node:crypto'
import { closeSync, existsSync, openSync, readFileSync, renameSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'

const [how, last = '1000000'] = process.argv.slice(2)
const folder = process.env.REPRISE_EXEC_STATE
const names = how === 'rename' || how === 'place' ? ['a'] : ['a', 'b']

let step = 0
if (existsSync(join(folder, 'a'))) {
  const steps = names.map((name) => readWhole(join(folder, name)))
  if (steps.some((each) => each === null || each !== steps[0])) {
    console.log(`damaged ${steps}`)
    process.exit(99)
  }
  step = steps[0]
}
console.log(`at ${step} from ${process.env.REPRISE_EXEC_RESTORED || 'nothing'}`)

while (step < Number(last)) {
  step += 1
  await write()
  await pause(how === 'place' ? 350 : 60)
}
console.log(`ends at ${step}`)

async function write() {
  if (how === 'marker') rmSync(join(folder, 'DONE'), { force: true })
  for (const name of names) {
    const path = join(folder, name)
    if (how === 'rename') {
      writeFileSync(`${path}.tmp`, bytesOf(step, name))
      renameSync(`${path}.tmp`, path)
    } else await writeInPlace(path, bytesOf(step, name))
  }
  if (how === 'marker') writeFileSync(join(folder, 'DONE'), String(step))
  if (how === 'word') await say(`capture ${step}`)
}

/** In pieces, with pauses: a concurrent reader finds half of it. */
async function writeInPlace(path, bytes) {
  const file = openSync(path, 'w')
  for (let at = 0; at < bytes.length; at += 40_000) {
    writeSync(file, bytes.subarray(at, at + 40_000))
    await pause(10)
  }
  closeSync(file)
}

function bytesOf(number, name) {
  const size = 1000 + ((number * 7919 + name.length) % 5) * 90_000
  const body = Buffer.alloc(size, `${number}:${name};`)
  return Buffer.concat([Buffer.from(`${number} ${digest(body)}\n`), body])
}

function readWhole(path) {
  if (!existsSync(path)) return null
  const bytes = readFileSync(path)
  const end = bytes.indexOf(10)
  const [number, sum] = bytes.subarray(0, end).toString().split(' ')
  return end > 0 && digest(bytes.subarray(end + 1)) === sum ? Number(number) : null
}

function digest(bytes) {
  return createHash('sha256').update(bytes).digest('hex')
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

function say(word) {
  return new Promise((resolve, reject) => {
    const client = connect(process.env.REPRISE_EXEC_SOCKET, () => client.write(`${word}\n`))
    client.once('data', () => resolve(client.destroy()))
    client.once('error', reject)
  })
}
