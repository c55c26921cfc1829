// The file with the tokens of a server: created at the first start with one token for everything, readable by its owner only.
// People add tokens with other roles and scopes by hand.
//
// { "tokens": [{ "name": "me", "token": "…", "role": "write", "scopes": ["workflow/", "job/"] }] }

import { randomBytes } from 'node:crypto'
import { linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { RepriseError } from '../core/errors.ts'
import { isExisting, isMissing, makeFolders } from '../lib/durable-file.ts'
import { type AccessToken, newToken } from './access.ts'

export interface TokenFile {
  readonly tokens: readonly AccessToken[]
  readonly isNew: boolean
}

/** Two servers that start at the same moment share the tokens: the file appears atomically, and the first one stays. */
export function readOrMakeTokens(path: string): TokenFile {
  const found = readTokens(path)
  if (found) return { tokens: found, isNew: false }
  const tokens: AccessToken[] = [{ name: 'owner', token: newToken(), role: 'write' }]
  makeFolders(dirname(path), 0o700)
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  writeFileSync(draft, `${JSON.stringify({ tokens }, null, 2)}\n`, { mode: 0o600, flag: 'wx' })
  try {
    linkSync(draft, path)
  } catch (error) {
    if (!isExisting(error)) throw error
    return { tokens: readTokens(path) ?? tokens, isNew: false }
  } finally {
    rmSync(draft, { force: true })
  }
  return { tokens, isNew: true }
}

/** Null: there is no such file. */
export function readTokens(path: string): AccessToken[] | null {
  let text: string
  try {
    const { mode } = statSync(path)
    // Windows has no such mode bits.
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      const what = `${path} can be read by others: chmod 600 ${path}, and replace the tokens in it`
      throw new RepriseError('INVALID_ARGUMENT', what, { file: path })
    }
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
  try {
    const { tokens } = JSON.parse(text) as { tokens?: unknown }
    if (Array.isArray(tokens) && tokens.length > 0) return tokens as AccessToken[]
  } catch {
    // Reported below, without any content of the file.
  }
  const what = `${path} contains no tokens: it must be JSON, { "tokens": [{ "name", "token", "role", "scopes" }] }`
  throw new RepriseError('INVALID_ARGUMENT', what, { file: path })
}
