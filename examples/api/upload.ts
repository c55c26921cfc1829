// Examples of `reprise/upload`.

import assert from 'node:assert/strict'
import { upload } from 'reprise/upload'
import { workflow } from 'reprise/workflow'
import { example } from './example.ts'

const transcode = workflow('transcode', async (ctx, video: { id: string; size: number }) => {
  return await ctx.step('transcode', () => `${video.size} bytes transcoded`)
})

const videos = upload('videos', {
  maxBytes: 5_000_000_000,
  expires: '24h',
  accept: ({ metadata }) => metadata.filetype?.startsWith('video/') || 'only videos',
  starts: [transcode],
  onComplete(file, ctx) {
    ctx.start(transcode, { id: file.id, size: file.size })
  },
})

export default [
  example(['upload', 'CompleteContext.start'], async (rp) => {
    const handler = videos.handler(rp, {
      path: '/videos',
      authorize: (request) => request.headers.get('x-user'),
    })
    const headers = { 'tus-resumable': '1.0.0', 'x-user': 'ann' }
    const made = await handler(
      new Request('http://localhost/videos', {
        method: 'POST',
        headers: { ...headers, 'upload-length': '5', 'upload-metadata': `filetype ${btoa('video/mp4')}` },
      }),
    )
    const path = made.headers.get('location')!
    const sent = await handler(
      new Request(`http://localhost${path}`, {
        method: 'PATCH',
        headers: { ...headers, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' },
        body: 'hello',
      }),
    )
    assert.equal(sent.headers.get('upload-offset'), '5')
    const id = path.slice('/videos/'.length)
    assert.equal((await videos.file(rp, id)).size, 5)
    assert.equal(await rp.run(transcode, { id, size: 5 }, { id }).result(), '5 bytes transcoded')
  }),
]
