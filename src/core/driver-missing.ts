// The error for an optional package that does not load. A missing package is to be installed; an installed package that fails
// (a bundler omitted a part, a native file does not fit) has a cause that an installation would not fix.

import { RepriseError } from './errors.ts'

/** @example throw driverMissing('opening a postgres URL', ['pg'], error) */
export function driverMissing(purpose: string, packages: readonly string[], cause: unknown): RepriseError {
  const names = packages.length === 1 ? `the package ${packages[0]}` : `the packages ${packages.join(' and ')}`
  const cure = isAbsent(packages, cause)
    ? `npm install ${packages.join(' ')}`
    : `which cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`
  return new RepriseError('DRIVER_MISSING', `${purpose} needs ${names}: ${cure}`, { packages: [...packages] }, cause)
}

function isAbsent(packages: readonly string[], cause: unknown): boolean {
  const { code, message = '' } = (cause ?? {}) as { readonly code?: unknown; readonly message?: string }
  const isNotFound = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
  return (
    isNotFound &&
    packages.some((name) => [`'${name}'`, `"${name}"`, `'${name}/`].some((quoted) => message.includes(quoted)))
  )
}
