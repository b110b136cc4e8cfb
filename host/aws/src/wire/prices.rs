//! Products of the price list.

use aws_sdk_pricing::types::{Filter, FilterType};

use crate::calls::Call;
use crate::clients::{Clients, pages};
use crate::error::ApiError;

/// Products of EC2 whose fields have these values: each a text of JSON, as
/// [`prices::read`](crate::prices::read) reads it.
///
/// # Errors
/// A page failed.
pub async fn products(clients: &Clients, wanted: &[(&str, &str)]) -> Result<Vec<String>, ApiError> {
    let filter = |(field, value): &(&str, &str)| {
        let kind = FilterType::TermMatch;
        let built = Filter::builder().r#type(kind).field(*field).value(*value);
        built.build()
    };
    let filters: Result<Vec<Filter>, _> = wanted.iter().map(filter).collect();
    let filters = filters.map_err(|why| ApiError::new(Call::GetProducts, "", &why.to_string()))?;
    let filters = &filters;
    pages(Call::GetProducts, |token| async move {
        let request = clients.pricing.get_products().service_code("AmazonEC2");
        let request = request.set_filters(Some(filters.clone()));
        let request = request.max_results(100).set_next_token(token);
        let out = clients.send(Call::GetProducts, request.send()).await?;
        let rows = out.price_list().to_vec();
        Ok((rows, out.next_token().map(str::to_owned)))
    })
    .await
}
