// Defines which timelines a scope names: the only place that compares prefixes of timeline ids. Ids are matched by whole
// segments, so that `save/a` never matches `save/ab`.
//
//   ''        every timeline
//   'job/'    every timeline below `job`: `job/papers`, `job/papers/3`
//   'save/a'  the timeline `save/a`, every timeline below it (`save/a/x`), and its archives (`save/a~1`)
//
// A rollback leaves an archive: its id is the id that was rolled back, a tilde and a number. It is in every scope of that
// id. A fork has its own id, which decides its scopes.

/** @example isWithin('save/a', 'save/a/x') // true; 'save/ab' is not */
export function isWithin(scope: string, id: string): boolean {
  if (scope === '' || id === scope) return true
  if (!id.startsWith(scope)) return false
  return scope.endsWith('/') || id[scope.length] === '/' || archiveTail.test(id.slice(scope.length))
}

/** The part of an id below a scope; null if it is not below it. @example idBelow('agent/guide/', 'agent/guide/ann') // 'ann' */
export function idBelow(scope: string, id: string): string | null {
  const start = scope.endsWith('/') || scope === '' ? scope : `${scope}/`
  return id.startsWith(start) && id.length > start.length ? id.slice(start.length) : null
}

/** Every scope that contains this id, narrowest first. @example [...scopesOf('a/b~1')] // 'a/b~1', 'a/b', 'a/', 'a', '' */
export function* scopesOf(id: string): Generator<string> {
  for (let at: string | null = id; at !== null; at = archivedFrom(at)) yield at
  for (let cut = id.lastIndexOf('/'); cut > 0; cut = id.lastIndexOf('/', cut - 1)) {
    yield id.slice(0, cut + 1)
    yield id.slice(0, cut)
  }
  yield ''
}

/** Whether two scopes have a timeline in common. */
export function overlaps(a: string, b: string): boolean {
  return isWithin(a, b) || isWithin(b, a)
}

const archiveTail = /^(?:~\d+)+$/
const archiveName = /^(.+)~\d+$/

/** @example archiveOf('save/a', 2) // 'save/a~2' */
export function archiveOf(id: string, number: number): string {
  return `${id}~${number}`
}

/** The id that this archive was rolled back from, by its name alone; null if it is not the name of an archive. */
export function archivedFrom(archive: string): string | null {
  return archiveName.exec(archive)?.[1] ?? null
}

/** @example archiveNumber('save/a~2') // 2; 0 if it is not the name of an archive */
export function archiveNumber(archive: string): number {
  const from = archivedFrom(archive)
  return from === null ? 0 : Number(archive.slice(from.length + 1))
}

/** Whether a rollback of `id` made this archive, judged by its name. */
export function isArchiveOf(id: string, archive: string): boolean {
  return archivedFrom(archive) === id
}

/** The id before any rollback. @example liveIdOf('job/papers~2') // 'job/papers' */
export function liveIdOf(id: string): string {
  return id.replace(/(?:~\d+)+$/, '')
}

/** In id order, the archives of this id follow this text; other ids between them satisfy `isAmongArchives` too. */
export function archivesStart(id: string): string {
  return `${id}~`
}

export function isAmongArchives(id: string, other: string): boolean {
  return other.startsWith(archivesStart(id))
}

/**
 * The range of a scope in id order: from `from` (inclusive) to `to` (exclusive; null: to the end). Unless the scope ends in a
 * slash, the range may contain other timelines too.
 */
export function rangeOf(scope: string): { readonly from: string; readonly to: string | null } {
  if (scope === '') return { from: '', to: null }
  // '0' follows '/' and '\x7f' follows '~', which follows '/'.
  return scope.endsWith('/') ? { from: scope, to: `${scope.slice(0, -1)}0` } : { from: scope, to: `${scope}\x7f` }
}
