// Names of kinds in an API, derived from the names of their resources.

import { expect, it } from 'vitest'
import { apiNames } from './api-names.ts'

it.each([
  ['sites', 'sites', 'Site'],
  ['policies', 'policies', 'Policy'],
  ['classes', 'classes', 'Class'],
  ['boxes', 'boxes', 'Box'],
  ['address', 'address', 'Address'],
  ['networkPolicies', 'network-policies', 'NetworkPolicy'],
  ['tenant.sites', 'tenant-sites', 'TenantSite'],
  ['status', 'x-status', 'XStatus'],
  ['9lives', 'x-9lives', 'X9live'],
  ['a-', 'a', 'A'],
])('%s is %s of kind %s', (name, plural, kind) => {
  expect(apiNames(name)).toMatchObject({ group: 'resources.reprise', version: 'v1', plural, kind, namespaced: false })
})

it('accepts valid values, and refuses values that no client could send', () => {
  const given = { group: 'shop.example.com', version: 'v2beta1', kind: 'Thing', plural: 'things', namespaced: true }
  expect(apiNames('x', given)).toEqual({ ...given, singular: 'thing', shortNames: [] })
  expect(apiNames('pods', { group: '' }).group).toBe('')
  const wrong = [{ group: 'shop' }, { group: 'A.b' }, { version: 'V1' }, { kind: 'site' }, { plural: 'Sites' }]
  for (const each of [...wrong, { plural: 'namespaces' }, { shortNames: ['a/b'] }, { unknown: 1 }]) {
    expect(() => apiNames('x', each as never)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  }
})
