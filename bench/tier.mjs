// Checkpoints in an object store: the cost of one of 100 MB with 1 % of changes, in requests and bytes, beside the lower bound;
// and the speed of its restore, beside plain GETs of the same bytes from the same server. REPRISE_BENCH_BYTES is the size of the
// state. The server: see support/s3.mjs.

import { randomBytes } from 'node:crypto'
import { hostOf } from '../dist/engine/host/host.js'
import { open } from '../dist/index.js'
import { save } from '../dist/layers/save/index.js'
import { joinUrl, locate } from '../dist/stores/s3/location.js'
import { pair, time } from './measure.mjs'
import { benchS3, clientOf } from './support/s3.mjs'
import { temporaryFolder } from './support/stores.mjs'

const size = Number(process.env.REPRISE_BENCH_BYTES ?? 100e6)
const changed = Math.round(size / 100)
const weights = save('weights', { keep: 2 })
const skip = { skip: 'no S3-compatible server: set S3_ENDPOINT, or install versitygw (go) or moto[server,s3] (pip)' }

/** A store whose chunks are in a bucket, with one save of this many bytes. */
async function filled(place, url) {
  const rp = await open(`sqlite:${place.path('app.db')}`, { blobs: url, housekeeping: false })
  const saved = await rp.open(weights)
  const bytes = randomBytes(size)
  await saved.putStream([bytes])
  const asked = () => hostOf(rp).kernel.tiers.requests()[0].requests
  return { rp, saved, bytes, asked }
}

/** Changes this many bytes, evenly spread. */
function change(bytes, places) {
  const length = Math.round(changed / places)
  for (let i = 0; i < places; i++) randomBytes(length).copy(bytes, Math.floor((i * bytes.length) / places))
}

const sumOf = ({ puts, gets, lists, deletes }) => puts + gets + lists + deletes

function checkpoint(name, unit, places, note, measure, target) {
  let place
  let server
  let store
  return {
    name,
    unit,
    note,
    target,
    async setup() {
      place = temporaryFolder()
      server = await benchS3(place)
      if (server) store = await filled(place, joinUrl(server.url, 'checkpoint'))
    },
    async run() {
      if (!store) return skip
      change(store.bytes, places)
      const before = store.asked()
      await store.saved.putStream([store.bytes])
      const after = store.asked()
      const spent = Object.fromEntries(Object.entries(after).map(([key, value]) => [key, value - before[key]]))
      return { ...measure(spent), details: spent }
    },
    async teardown() {
      await store?.rp.close()
      await server?.close()
      place?.remove()
    },
  }
}

function restore() {
  let place
  let server
  let url
  return {
    name: 'restore',
    unit: 'MB/s',
    note: 'a save of 100 MB read by a new engine, beside plain GETs of the objects that hold it, four at once',
    target: { ratioMin: 0.5 },
    async setup() {
      place = temporaryFolder()
      server = await benchS3(place)
      if (!server) return
      url = joinUrl(server.url, 'restore')
      const { rp } = await filled(place, url)
      await rp.close()
    },
    run: (given) => (server ? pair({ value: () => ours(place, url), baseline: () => plain(url) })(given) : skip),
    async teardown() {
      await server?.close()
      place?.remove()
    },
  }
}

async function ours(place, url) {
  const { elapsedMs, result } = await time(async () => {
    const rp = await open(`sqlite:${place.path('app.db')}`, { blobs: url, housekeeping: false })
    const saved = await rp.open(weights)
    let bytes = 0
    for await (const piece of (await saved.latest()).stream()) bytes += piece.length
    await rp.close()
    return bytes
  })
  if (result !== size) throw new Error(`${result} bytes came back, not ${size}`)
  return size / 1e6 / (elapsedMs / 1000)
}

/** Signed GETs of whole objects, four at once, with nothing else. */
async function plain(url) {
  const client = await clientOf(joinUrl(url, 'default'))
  const { AwsClient } = await import('aws4fetch')
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_REGION: region } = process.env
  const signer = new AwsClient({
    accessKeyId,
    secretAccessKey,
    region: region ?? 'us-east-1',
    service: 's3',
    retries: 0,
  })
  const { base, prefix } = await locate(joinUrl(url, 'default'))
  const keys = (await client.list('packs/')).map(({ key }) => key)
  let bytes = 0
  const one = async () => {
    for (let key = keys.pop(); key !== undefined; key = keys.pop()) {
      const response = await signer.fetch(`${base}/${prefix}/${key}`)
      if (!response.ok) throw new Error(`GET ${key}: ${response.status}`)
      bytes += (await response.arrayBuffer()).byteLength
    }
  }
  const { elapsedMs } = await time(() => Promise.all(Array.from({ length: 4 }, one)))
  return bytes / 1e6 / (elapsedMs / 1000)
}

export default [
  checkpoint(
    'checkpoint-requests',
    'requests',
    1,
    '1 % of 100 MB changed in one place; the least is one PUT',
    (spent) => ({ value: sumOf(spent), baseline: 1 }),
  ),
  checkpoint(
    'checkpoint-bytes',
    'MB out',
    1,
    '1 % of 100 MB changed in one place; the least is that 1 %',
    ({ bytesOut }) => ({ value: bytesOut / 1e6, baseline: changed / 1e6 }),
    { ratioMax: 1.5 },
  ),
  checkpoint(
    'checkpoint-bytes-scattered',
    'MB out',
    16,
    'the same 1 % in 16 places',
    ({ bytesOut }) => ({ value: bytesOut / 1e6, baseline: changed / 1e6 }),
    { ratioMax: 5 },
  ),
  restore(),
]
