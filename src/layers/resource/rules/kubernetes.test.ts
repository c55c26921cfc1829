// Objects converted to the form of Kubernetes and back are unchanged.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { apiNames } from './api-names.ts'
import { type Collection, decodeGiven, decodeObject, encodeObject } from './kubernetes.ts'
import type { ResourceObject } from './object.ts'

const word = fc.stringMatching(/^[a-z][a-z0-9]{0,8}$/)
const texts = fc.dictionary(word, fc.string({ maxLength: 8 }), { maxKeys: 3 })
/** Times there have a resolution of one second. */
const time = fc.integer({ min: 0, max: 4_000_000_000 }).map((seconds) => seconds * 1000)
const owner = fc.record(
  {
    kind: fc.constantFrom('sites', 'notes/here', 'apps/v1:Deployment', 'elsewhere'),
    name: word,
    uid: word,
    controller: fc.constant(true),
  },
  { requiredKeys: ['kind', 'name', 'uid'] },
)
const condition = fc.record(
  {
    type: word,
    status: fc.constantFrom('True', 'False', 'Unknown'),
    reason: word,
    message: fc.string(),
    observedGeneration: fc.nat(),
    changedAt: time,
  },
  { requiredKeys: ['type', 'status', 'observedGeneration', 'changedAt'] },
)
const count = fc.integer({ min: 1, max: 2 ** 40 })
const object = fc.record(
  {
    name: word,
    uid: word,
    revision: count,
    generation: count,
    labels: texts,
    annotations: texts,
    owners: fc.array(owner, { maxLength: 3 }),
    finalizers: fc.array(word, { maxLength: 3 }),
    createdAt: time,
    deletingAt: time,
    spec: fc.oneof(fc.dictionary(word, fc.nat()), fc.string(), fc.array(fc.nat())),
    status: fc.oneof(
      fc.dictionary(word, fc.nat(), { minKeys: 1 }).filter((each) => Object.keys(each).join() !== 'value'),
      fc.string(),
      fc.boolean(),
    ),
    observedGeneration: count,
    conditions: fc.array(condition, { maxLength: 3 }),
  },
  {
    requiredKeys: [
      ...(['name', 'uid', 'revision', 'generation', 'labels', 'annotations', 'owners'] as const),
      ...(['finalizers', 'createdAt', 'spec', 'conditions'] as const),
    ],
  },
)

const kinds = new Map([
  ['sites', apiNames('sites')],
  ['notes', apiNames('notes', { namespaced: true })],
])

it('comes back as it was', () => {
  const at: Collection = { api: kinds.get('notes')!, namespace: 'here', kinds }
  fc.assert(
    fc.property(object, (given) => {
      const sent = JSON.parse(JSON.stringify(encodeObject(given as ResourceObject, at)))
      expect(decodeObject(sent, at)).toEqual(JSON.parse(JSON.stringify(given)))
      const { name, uid, revision, labels, annotations, owners, finalizers, spec } = given
      const wanted = { name, namespace: 'here', uid, revision, labels, annotations, owners, finalizers, spec }
      expect(decodeGiven(sent, at)).toEqual(JSON.parse(JSON.stringify(wanted)))
    }),
  )
})

it('over all namespaces has the namespace in its name and in those of its owners', () => {
  const at: Collection = { api: kinds.get('notes')!, namespace: undefined, kinds }
  const owners = [{ apiVersion: 'resources.reprise/v1', kind: 'Note', name: 'o', uid: 'u' }]
  const metadata = { name: 'n', namespace: 'there', uid: 'x', resourceVersion: '7', ownerReferences: owners }
  const read = decodeObject({ metadata, spec: {} }, at)
  expect([read.name, read.owners]).toEqual(['there/n', [{ kind: 'notes', name: 'there/o', uid: 'u' }]])
})

it('without a spec is shown by its other fields', () => {
  const at: Collection = { api: apiNames('config-maps', { group: '' }), namespace: undefined, kinds }
  const metadata = { name: 'n', uid: 'x', resourceVersion: '7' }
  expect(decodeObject({ metadata, data: { a: 'b' } }, at)).toMatchObject({ spec: { data: { a: 'b' } }, generation: 1 })
  expect(() => decodeObject({ metadata: { ...metadata, resourceVersion: 'x' } }, at)).toThrow('resourceVersion')
  expect(() => decodeObject({ metadata: { name: 'n' } }, at)).toThrow('without name, uid or resourceVersion')
})
