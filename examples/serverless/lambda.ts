// AWS Lambda: the target of a schedule, or of a queue that your API writes to.

import { lambdaHandler } from 'reprise/serverless'
import { options } from './orders.ts'

export const handler = lambdaHandler(options)
