// Examples of `reprise/server`.

import assert from 'node:assert/strict'
import { serve } from 'reprise/server'
import { example } from './example.ts'

export default [
  example(['serve', 'Server.link', 'Server.close'], async (rp) => {
    const token = 'a-token-of-at-least-thirty-two-characters'
    const handler = serve(rp, { tokens: [{ name: 'me', token, role: 'read' }] })
    const asked = new Request('http://localhost/v1/timelines', {
      headers: { authorization: `Bearer ${token}`, host: 'localhost' },
    })
    assert.equal((await handler(asked)).status, 200)
    assert.ok(handler.link('me').startsWith('/#/login/'))
    await handler.close()
  }),
]
