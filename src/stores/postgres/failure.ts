// Maps failures of the driver or the server to our errors, by SQLSTATE and by the socket's error code.

import { type ErrorCode, RepriseError } from '../../core/errors.ts'

/** The SQLSTATEs of our functions. */
const refused = 'RP001'
const misfit = 'RP002'

interface DriverError {
  readonly code?: unknown
  readonly message?: unknown
  readonly detail?: unknown
}

/** @example throw toReprise(error, 'commit') */
export function toReprise(error: unknown, doing: string): RepriseError {
  if (error instanceof RepriseError) return error
  const { code, message, detail } = (error ?? {}) as DriverError
  const state = typeof code === 'string' ? code : ''
  // Refused by one of our functions, outside of a commit: the message is the code, the detail is the reason.
  if (state === refused) return new RepriseError(message as ErrorCode, String(detail ?? doing), {}, error)
  return new RepriseError(codeOf(state, String(message)), `PostgreSQL, ${doing}: ${message}`, { state }, error)
}

/** The server requests a retry of the whole transaction. */
export function isRetryable(error: unknown): boolean {
  const { code } = (error ?? {}) as DriverError
  return code === '40001' || code === '40P01'
}

/** An append met a run of the same first sequence, or does not follow the last one. Nothing of its batch was done. */
export function isMisfit(error: unknown): boolean {
  return error instanceof RepriseError && (error.data.state === '23505' || error.data.state === misfit)
}

/** A prepared statement is missing in this session, or exists although we did not prepare it. Nothing was done. */
export function isStatementMisplaced(error: unknown): boolean {
  const { code } = (error ?? {}) as DriverError
  return code === '26000' || code === '42P05'
}

/** A setting was refused at connect: there is a pooler in between. */
export function isStartupRefused(error: unknown): boolean {
  const { code, message } = (error ?? {}) as DriverError
  return code === '08P01' && String(message).includes('startup parameter')
}

/** The connection is lost, or was never established. */
export function isConnectionLoss(error: unknown): boolean {
  return toReprise(error, '').code === 'STORE_UNREACHABLE'
}

/** The disk of the server is full: no statement is to blame for it. */
export function isDiskFull(error: unknown): boolean {
  return toReprise(error, '').code === 'STORE_FULL'
}

function codeOf(state: string, message: string): ErrorCode {
  const exact = exactCodes[state]
  if (exact) return exact
  // A wrong number of parameters is the statement's fault (protocol_violation): the connection is intact.
  if (state === '08P01' && message.startsWith('bind message')) return 'STORE_IO'
  if (/^(08|57P)/.test(state) || /^E[A-Z_]+$/.test(state)) return 'STORE_UNREACHABLE'
  if (state.startsWith('53')) return 'STORE_BUSY'
  if (state.startsWith('58')) return 'STORE_IO'
  if (state.startsWith('28')) return 'STORE_UNREACHABLE'
  // The driver's own errors have no code.
  if (/timeout|terminated|Connection|connection|not queryable|closed|SASL|SSL/.test(message) && state === '') {
    return 'STORE_UNREACHABLE'
  }
  return state === '' ? 'BUG' : 'STORE_IO'
}

const exactCodes: Readonly<Record<string, ErrorCode>> = {
  '25006': 'STORE_READ_ONLY',
  '3D000': 'STORE_UNREACHABLE',
  '40001': 'STORE_BUSY',
  '40P01': 'STORE_BUSY',
  '42501': 'STORE_READ_ONLY',
  // The names of our functions and tables contain their version: another version replaced them.
  '42883': 'INCOMPATIBLE_VERSION',
  '42P01': 'INCOMPATIBLE_VERSION',
  '53100': 'STORE_FULL',
  '55P03': 'STORE_BUSY',
  '57014': 'TIMEOUT',
  '57P03': 'STORE_UNREACHABLE',
  XX001: 'STORE_DAMAGED',
  XX002: 'STORE_DAMAGED',
}
