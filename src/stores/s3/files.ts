// A file as one object and back: exports and backups. Large files go in parts, several at a time, each with its digest;
// the object exists as a whole or not at all. It is read in ranges of one version of the object, so that a concurrent
// replacement is detected.

import { type FileHandle, open as openFile } from 'node:fs/promises'
import { RepriseError } from '../../core/errors.ts'
import { S3Client, type S3ClientOptions } from './client.ts'
import { locate } from './location.ts'
import { Multipart } from './multipart.ts'

const partBytes = 16 * 1024 * 1024
/** At most 10,000 are allowed; a file may grow meanwhile. */
const partsMax = 9000
const rangeBytes = 8 * 1024 * 1024
/** How many parts or ranges are in memory at once. */
const atOnce = 4

export interface FileOptions extends S3ClientOptions {
  /** Throws EXISTS if the object exists already. */
  readonly onlyNew?: boolean
}

/** @example await uploadFile('/tmp/app.rpb', 's3://backups/app.rpb') */
export async function uploadFile(path: string, url: string, options: FileOptions = {}): Promise<void> {
  const { client, key } = await openObject(url, options)
  const file = await openFile(path, 'r')
  try {
    const { size } = await file.stat()
    const isWritten =
      size <= partBytes
        ? await client.put(key, await read(file, 0, size), options.onlyNew)
        : await inParts(client, key, file, size, options.onlyNew ?? false)
    if (!isWritten) throw new RepriseError('EXISTS', `${client.name}/${key} exists already`, { url: client.name, key })
  } finally {
    await file.close()
  }
}

/** @example await downloadFile('s3://backups/app.rpb', '/tmp/app.rpb') */
export async function downloadFile(url: string, path: string, options: S3ClientOptions = {}): Promise<void> {
  const { client, key } = await openObject(url, options)
  const what = `read ${key}`
  const head = await client.send({ method: 'HEAD', key, accepts: [404], what })
  if (head.status === 404) throw new RepriseError('NOT_FOUND', `there is no ${client.name}/${key}`, { key })
  const size = Number(head.headers.get('content-length'))
  const version = head.headers.get('etag')
  const file = await openFile(path, 'wx', 0o600)
  try {
    await each(Math.ceil(size / rangeBytes), async (i) => {
      const from = i * rangeBytes
      const to = Math.min(size, from + rangeBytes) - 1
      const headers = { range: `bytes=${from}-${to}`, ...(version !== null && { 'if-match': version }) }
      const { status, bytes } = await client.send({ method: 'GET', key, headers, accepts: [412, 404], what })
      if (status >= 400 || bytes.length !== to - from + 1) {
        throw new RepriseError('CONFLICT', `${client.name}/${key} was replaced while it was read: read it again`, {
          key,
        })
      }
      await file.write(bytes, 0, bytes.length, from)
    })
  } finally {
    await file.close()
  }
}

export async function objectExists(url: string, options: S3ClientOptions = {}): Promise<boolean> {
  const { client, key } = await openObject(url, options)
  return (await client.send({ method: 'HEAD', key, accepts: [404], what: `look for ${key}` })).status !== 404
}

async function openObject(url: string, options: S3ClientOptions): Promise<{ client: S3Client; key: string }> {
  const location = await locate(url)
  const cut = location.prefix.lastIndexOf('/')
  const key = location.prefix.slice(cut + 1)
  if (key === '') {
    throw new RepriseError('INVALID_ARGUMENT', `name an object: s3://${location.bucket}/name`, {
      bucket: location.bucket,
    })
  }
  const prefix = location.prefix.slice(0, Math.max(0, cut))
  const name = `s3://${location.bucket}${prefix === '' ? '' : `/${prefix}`}`
  return { client: await S3Client.open({ ...location, prefix, name }, options), key }
}

async function inParts(
  client: S3Client,
  key: string,
  file: FileHandle,
  size: number,
  onlyNew: boolean,
): Promise<boolean> {
  const upload = await Multipart.begin(client, key)
  let isWritten = false
  try {
    const bytes = Math.max(partBytes, Math.ceil(size / partsMax))
    await each(Math.ceil(size / bytes), async (i) => {
      await upload.put(i, await read(file, i * bytes, Math.min(bytes, size - i * bytes)))
    })
    isWritten = await upload.join(onlyNew)
    return isWritten
  } finally {
    if (!isWritten) await upload.giveUp()
  }
}

/** A few at a time, in order; the first failure ends it. */
async function each(count: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0
  let isOver = false
  const one = async () => {
    while (next < count && !isOver) {
      const i = next++
      await work(i).catch((error) => {
        isOver = true
        throw error
      })
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, one))
}

async function read(file: FileHandle, from: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length)
  for (let at = 0; at < length; ) {
    const { bytesRead } = await file.read(bytes, at, length - at, from + at)
    if (bytesRead === 0) throw new RepriseError('STORE_IO', 'a file became shorter while it was read')
    at += bytesRead
  }
  return bytes
}
