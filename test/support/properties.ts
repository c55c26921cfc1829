// fast-check as tests get it (vitest.config.ts). A list that says how long it may be gets that long: by itself fast-check
// stops near ten elements whatever a list says, and a history of ten steps does not show what thirty do.
//
// The seed is the same in every run, so that a red run says something about the change and not about the day. Another one,
// or a random one, comes with REPRISE_SEED. Nothing is made smaller where nobody waits for it: that can take longer than
// the limit of a test, and then the limit is all that is told.

import fc from 'fast-check'

const { REPRISE_SEED = '1', CI } = process.env

fc.configureGlobal({
  defaultSizeToMaxWhenMaxSpecified: true,
  endOnFailure: CI !== undefined,
  ...(REPRISE_SEED !== 'random' && { seed: Number(REPRISE_SEED) }),
})

export * from 'fast-check'
export default fc
