import { expect, it } from 'vitest'
import { driverMissing } from './driver-missing.ts'

const coded = (message: string, code: string) => Object.assign(new Error(message), { code })

it('a package that is absent is to be installed', () => {
  const { code, message } = driverMissing('a URL', ['pg'], coded("Cannot find package 'pg'", 'ERR_MODULE_NOT_FOUND'))
  expect([code, message]).toEqual(['DRIVER_MISSING', 'a URL needs the package pg: npm install pg [DRIVER_MISSING]'])
})

it.each([
  new Error('Dynamic require of "events" is not supported'),
  coded("Cannot find package 'pg-types'", 'ERR_MODULE_NOT_FOUND'),
  'text',
])('a package that fails to load shows its own cause: %s', (cause) => {
  const { message } = driverMissing('a URL', ['pg'], cause)
  expect(message).toContain(cause instanceof Error ? cause.message : cause)
  expect(message).not.toContain('npm install')
})
