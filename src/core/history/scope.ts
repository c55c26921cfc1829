// Which timelines a text names: the only place that compares the beginning of a timeline's id with anything. Ids are
// matched by whole segments, so that `save/a` never means `save/ab`.
//
//   ''        every timeline
//   'job/'    every timeline below `job`: `job/papers`, `job/papers/3`
//   'save/a'  the timeline `save/a`, every timeline below it (`save/a/x`), and its archives (`save/a~1`)
//
// An archive is what a rollback leaves behind: the id that was rolled back, a tilde and a number. It belongs wherever that
// id belongs. A fork has an id of its own, and belongs where that id says.

/** @example isWithin('save/a', 'save/a/x') // true; 'save/ab' is not */
export function isWithin(scope: string, id: string): boolean {
  if (scope === '' || id === scope) return true
  if (!id.startsWith(scope)) return false
  return scope.endsWith('/') || id[scope.length] === '/' || archiveTail.test(id.slice(scope.length))
}

/** What an id says below a scope, or null if it is not below it. @example idBelow('agent/guide/', 'agent/guide/ann') // 'ann' */
export function idBelow(scope: string, id: string): string | null {
  const start = scope.endsWith('/') || scope === '' ? scope : `${scope}/`
  return id.startsWith(start) && id.length > start.length ? id.slice(start.length) : null
}

/** Every scope that holds this id, the narrowest first. @example [...scopesOf('a/b~1')] // 'a/b~1', 'a/b', 'a/', 'a', '' */
export function* scopesOf(id: string): Generator<string> {
  for (let at: string | null = id; at !== null; at = archivedFrom(at)) yield at
  for (let cut = id.lastIndexOf('/'); cut > 0; cut = id.lastIndexOf('/', cut - 1)) {
    yield id.slice(0, cut + 1)
    yield id.slice(0, cut)
  }
  yield ''
}

/** Do two scopes have a timeline in common? */
export function overlaps(a: string, b: string): boolean {
  return isWithin(a, b) || isWithin(b, a)
}

const archiveTail = /^(?:~\d+)+$/
const archiveName = /^(.+)~\d+$/

/** @example archiveOf('save/a', 2) // 'save/a~2' */
export function archiveOf(id: string, number: number): string {
  return `${id}~${number}`
}

/** The id that this archive was rolled back from, by its name alone; null if it has not the name of one. */
export function archivedFrom(archive: string): string | null {
  return archiveName.exec(archive)?.[1] ?? null
}

/** @example archiveNumber('save/a~2') // 2; 0 if it has not the name of an archive */
export function archiveNumber(archive: string): number {
  const from = archivedFrom(archive)
  return from === null ? 0 : Number(archive.slice(from.length + 1))
}

/** Was this timeline archived by a rollback of that id? Told by its name. */
export function isArchiveOf(id: string, archive: string): boolean {
  return archivedFrom(archive) === id
}

/** The id as it was before any rollback. @example liveIdOf('job/papers~2') // 'job/papers' */
export function liveIdOf(id: string): string {
  return id.replace(/(?:~\d+)+$/, '')
}

/** In the order of ids, the archives of this one come after this text, and only those `isAmongArchives` lie between them. */
export function archivesStart(id: string): string {
  return `${id}~`
}

export function isAmongArchives(id: string, other: string): boolean {
  return other.startsWith(archivesStart(id))
}

/**
 * Where the timelines of a scope lie in the order of ids: from `from` on, and before `to` (null: to the end). Others may
 * lie in between unless the scope ends in a slash.
 */
export function rangeOf(scope: string): { readonly from: string; readonly to: string | null } {
  if (scope === '') return { from: '', to: null }
  // '0' follows '/' and '\x7f' follows '~', which follows '/'.
  return scope.endsWith('/') ? { from: scope, to: `${scope.slice(0, -1)}0` } : { from: scope, to: `${scope}\x7f` }
}
