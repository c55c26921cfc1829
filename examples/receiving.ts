// A server that takes large files: a client sends one in pieces, is cut off in the middle, reads the offset of the upload and
// continues there. When the file is complete, onComplete starts a workflow, once.
//
//   node examples/receiving.ts

import { createHash, randomBytes } from 'node:crypto'
import { open } from 'reprise'
import { upload } from 'reprise/upload'
import { workflow } from 'reprise/workflow'

export const inspect = workflow('inspect', async (ctx, file: { id: string; size: number }) => {
  return await ctx.step('fingerprint', async () => {
    const hash = createHash('sha256')
    for await (const piece of (await videos.file(rp, file.id)).read()) hash.update(piece)
    return hash.digest('hex')
  })
})

export const videos = upload('videos', {
  maxBytes: 100_000_000,
  starts: [inspect],
  onComplete(file, ctx) {
    ctx.start(inspect, { id: file.id, size: file.size })
  },
})

const rp = await open('memory:')
const handler = videos.handler(rp, { path: '/videos', authorize: (request) => request.headers.get('x-user') })

const ask = (
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: Uint8Array<ArrayBuffer> | ReadableStream,
) =>
  handler(
    new Request(`http://localhost${path}`, {
      method,
      headers: { 'tus-resumable': '1.0.0', 'x-user': 'ann', ...headers },
      ...(body && { body, duplex: 'half' }),
    } as RequestInit),
  )
const patch = (path: string, from: number, body: Uint8Array<ArrayBuffer> | ReadableStream) =>
  ask('PATCH', path, { 'upload-offset': String(from), 'content-type': 'application/offset+octet-stream' }, body)

const video = new Uint8Array(randomBytes(3_000_000))
const made = await ask('POST', '/videos', { 'upload-length': String(video.length) })
const path = made.headers.get('location')!

// The line breaks after a million bytes and a bit.
let sent = 0
const breaking = new ReadableStream({
  pull(controller) {
    if (sent >= 1_000_000) return controller.error(new Error('the line is dead'))
    controller.enqueue(video.subarray(sent, sent + 70_000))
    sent += 70_000
  },
})
await patch(path, 0, breaking)

const offset = Number((await ask('HEAD', path)).headers.get('upload-offset'))
console.log(`the server has ${offset} of ${video.length} bytes: resuming there`)
await patch(path, offset, video.subarray(offset))

const id = path.slice(path.lastIndexOf('/') + 1)
const found = await rp.run(inspect, { id, size: video.length }, { id }).result()
console.log('the workflow saw the same bytes:', found === createHash('sha256').update(video).digest('hex'))
await rp.close()
