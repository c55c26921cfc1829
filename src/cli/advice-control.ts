// Advice for control planes: desired state, and settings that clients accept or refuse.

import type { Advice } from './advice-shape.ts'

export const controlAdvices: readonly Advice[] = [
  {
    id: 'B10-resource',
    title: 'resources (objects with list and watch)',
    when: { about: 'desired' },
    why: 'Each object holds the desired state (spec) and the observed state (status). A controller lists the objects once and then watches from that revision, so no change is missed or delivered twice, even after crashes of either side.',
    watch: [
      'act on the current state, not on the change that triggered the call: several changes may arrive as one',
      'report the observed generation with the status, or an outdated status looks current',
    ],
    code: `import { open } from 'reprise'
import { resource } from 'reprise/resources'

export const sites = resource('advised-sites')

const rp = await open()
const objects = await rp.open(sites)
const made = await objects.create({ name: 'shop', spec: { url: 'https://a.example' } })
await objects.report({ name: 'shop', observedGeneration: made.generation, status: { ready: true } })
const { items, revision } = await objects.list()
console.log(items[0].status, revision)
await objects.close()
await rp.close()
`,
  },
  {
    id: 'B10-config',
    title: 'configuration push (versions that clients accept or refuse)',
    when: { about: 'settings' },
    why: 'Every version is history. A client answers each offer with its nonce: accepted, or refused with a reason, and then its last good version stays in force. A program can read the version of each client, or wait for it.',
    watch: [
      'an answer for an older offer is ignored: a client must answer the newest',
      'clients that stay disconnected are not counted after forgetAfter: make it longer than a restart',
    ],
    code: `import { open } from 'reprise'
import { config } from 'reprise/resources'

export const routes = config('advised-routes')

const rp = await open()
const pushed = await rp.open(routes)
const version = await pushed.set({ upstream: 'https://a.example' })
const client = await pushed.client('proxy-1')
const offer = await client.next()
await client.ack(offer.nonce)
console.log(version, offer.value, await pushed.clients())
await client.close()
await pushed.close()
await rp.close()
`,
  },
]
