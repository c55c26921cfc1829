// The place of an artifact: a scope (who may read it), a space (which tool it belongs to) and a key (chosen by the
// tool). Each is restricted to a form in which two places never share a timeline.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'

export interface ArtifactPlace {
  readonly scope: string
  readonly space: string
  /** Segments separated by slashes. */
  readonly key: string
}

const scopeForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
/** A leading dot marks spaces that no path can name: those of protocols with their own paths. */
const spaceForm = /^\.?[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const segmentForm = /^(?!\.{1,2}$)[A-Za-z0-9._+=@,-]{1,255}$/
const segmentsMax = 16
const keyLengthMax = 300

export function checkScope(scope: string, what = 'a scope of the cache'): void {
  if (!scopeForm.test(scope)) throw refuse(`${what} must have 1 to 100 letters, digits, dots, dashes and underscores`)
}

export function checkSpace(space: string): void {
  if (!spaceForm.test(space)) throw refuse('a space must have 1 to 100 letters, digits, dots, dashes and underscores')
}

/** Throws INVALID_ARGUMENT for an invalid place. */
export function checkPlace({ scope, space, key }: ArtifactPlace): TimelineId {
  checkScope(scope)
  checkSpace(space)
  const segments = key.split('/')
  if (key.length > keyLengthMax || segments.length > segmentsMax || !segments.every((each) => segmentForm.test(each))) {
    throw refuse(
      `the key of an artifact must have at most ${keyLengthMax} characters and ${segmentsMax} segments, of letters, digits and . _ + = @ , -`,
    )
  }
  return timelineId(`artifact/${scope}/${space}/${key}`)
}

function refuse(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what, {})
}
