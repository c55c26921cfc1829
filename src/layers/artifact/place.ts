// Where an artifact lies: a scope, which says who may read it, a space, which says which tool it belongs to, and a key,
// which the tool chooses. Each is held to a form in which it can be no other place.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'

export interface ArtifactPlace {
  readonly scope: string
  readonly space: string
  /** Segments with slashes between them. */
  readonly key: string
}

const scopeForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
/** The dot in front is for spaces that no path can name: those of the protocols with a path of their own. */
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

/** INVALID_ARGUMENT for what can be no place. */
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
