import { expect, it } from 'vitest'
import type { ResourceObject } from './object.ts'
import { type SelectorText, selectorOf } from './selector.ts'

const object: ResourceObject = {
  name: 'shop/web',
  uid: 'pods@1',
  revision: 7,
  generation: 2,
  labels: { app: 'web', tier: 'front', empty: '' },
  annotations: {},
  owners: [],
  finalizers: [],
  createdAt: 0,
  spec: { node: 'a', replicas: 3, on: true },
  conditions: [],
}

it.each<[SelectorText, boolean]>([
  [{}, true],
  [{ labels: '' }, true],
  [{ labels: 'app=web' }, true],
  [{ labels: 'app==web,tier!=back' }, true],
  [{ labels: 'app = web , tier in (front, back)' }, true],
  [{ labels: 'app in (x,y)' }, false],
  [{ labels: 'app notin (x,y),other notin (z)' }, true],
  [{ labels: 'app,!other' }, true],
  [{ labels: '!app' }, false],
  [{ labels: 'empty=' }, true],
  [{ labels: 'other=' }, false],
  [{ labels: 'other!=x' }, true],
  [{ labels: 'toString' }, false],
  [{ labels: { app: 'web', tier: 'front' } }, true],
  [{ labels: { app: 'web', tier: 'back' } }, false],
  [{ fields: 'metadata.name=shop/web' }, true],
  [{ fields: 'spec.node=a,spec.replicas=3,spec.on=true' }, true],
  [{ fields: 'spec.node!=a' }, false],
  [{ fields: 'status.phase=' }, true],
  [{ fields: { 'spec.node': 'b' } }, false],
  [{ prefix: 'shop/' }, true],
  [{ prefix: 'shop/x', labels: 'app=web' }, false],
])('%j matches: %s', (text, isMatch) => {
  expect(selectorOf(text).matches(object)).toBe(isMatch)
})

it.each(['app=a=b', 'app in x', 'a b', 'app in (a', '=x', ','])('refuses the labels %j', (labels) => {
  expect(() => selectorOf({ labels })).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
})

it.each(['a', 'a in (b)', '!a'])('refuses the fields %j', (fields) => {
  expect(() => selectorOf({ fields })).toThrow(/use a=b or a!=b/)
})
