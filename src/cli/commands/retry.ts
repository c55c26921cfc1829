// reprise retry: takes back the last failure of a run, so that it continues.

import { act } from '../../operations/act.ts'
import type { Command } from '../command.ts'
import { findTimeline } from '../find.ts'
import { tell } from '../tell.ts'

const retry: Command = async ({ engine, args, output }) =>
  tell(output, await act(engine, await findTimeline(engine, args[0]!), 'retry', {}))

export default retry
